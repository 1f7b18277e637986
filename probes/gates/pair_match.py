"""Gate: both sides of a pair mean the same by a page of KV cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import own_context
from probes.pairs import Terms, compare_terms, judge_pairs

KEY = "pair_match"

#: Without one of these figures on both sides nothing is proved.
WANTED = ("context", "kv_cache_dtype", "page_size", "quantization", "weights")


@GATES.register(KEY)
class PairMatch:
    """Compares quantisation, KV dtype, page size, speculative settings, weights and context.

    Source: /server_info and /v1/models, as the adapter's ``layout`` names them; the engine's own
    "null" is a value like any other.
    """

    title = "Both sides of a pair mean the same"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a pair."""
        return judge_pairs(
            fleet, check=KEY, kind=self.kind, judge_pair=_judge_pair, needs_both=False
        )


def _judge_pair(prefill: Reading, decode: Reading) -> tuple[Verdict, str, Mapping[str, Figure]]:
    return compare_terms(
        Terms(reading=prefill, terms=_terms(prefill)),
        Terms(reading=decode, terms=_terms(decode)),
        wanted=WANTED,
        cure="start both with the same flags and weights",
    )


def _terms(reading: Reading) -> dict[str, str | None]:
    """Answer what must be equal; None is a figure that the engine does not show."""
    context = own_context(reading)
    return {**reading.layout, "context": None if context is None else str(context)}
