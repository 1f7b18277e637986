"""Whether the engines were the same from the first round of an audit to its last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from common.verdicts import Verdict
from probes.canary.results import RoundResult
from probes.canary.survey import compare_surveys
from probes.judgement import Check, Kind


def moved_between(results: Sequence[RoundResult]) -> Iterator[Check]:
    """Answer a required, inconclusive check for each gap between rounds in which something moved.

    A round watches itself only. Gates judge what stood before the first round and a proof binds
    what stood after the last, so a redeploy between two rounds would be proved without its gates.
    """
    for number, (earlier, later) in enumerate(pairwise(results), start=1):
        drift = compare_surveys(earlier.after or earlier.before, later.before)
        if drift.text:
            yield Check(
                check="rounds_of_one_kind",
                target=f"rounds {number} and {number + 1}",
                verdict=Verdict.INCONCLUSIVE,
                kind=Kind.CONFIG,
                reason=f"between rounds {number} and {number + 1}: {drift.text}; audit again",
            )
