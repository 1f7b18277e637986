"""Gate: both sides of a pair are split over their devices in the same way (advisory)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.judgement import Check, Figure, Kind, Skipped
from probes.pairs import Terms, compare_terms, judge_pairs

KEY = "pair_layout"


@GATES.register(KEY)
class PairLayout:
    """Compares the parallel sizes. A difference is legal, but it must be earned by a canary.

    Source: /server_info; TensorRT-LLM issue 6507 (wrong answers under unequal tensor parallelism).
    """

    title = "Both sides of a pair are split alike"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a pair."""
        return judge_pairs(
            fleet, check=KEY, kind=self.kind, judge_pair=_judge_pair, needs_both=False
        )


def _judge_pair(prefill: Reading, decode: Reading) -> tuple[Verdict, str, Mapping[str, Figure]]:
    return compare_terms(
        Terms(reading=prefill, terms=prefill.parallel),
        Terms(reading=decode, terms=decode.parallel),
        wanted=(),
        cure="run a canary round over this pair before it takes requests",
    )
