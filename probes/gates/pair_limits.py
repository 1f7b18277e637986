"""Gate: both sides of a pair refuse the same lengths, so that neither waits for the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.doubts import doubt_about, doubt_about_role, tokens
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import SGLANG, Limits, refusal_limits
from probes.pairs import judge_pairs

KEY = "pair_limits"


@GATES.register(KEY)
class PairLimits:
    """Compares the first refused lengths of both sides; no version is free of it.

    Unit: tokens; ``lengths`` is [first, last] that one rank refuses and another admits, or null.
    Source: seen on sglang 0.5.22 and 0.5.23: prefill refuses at once, decode holds what it reserved
    until SGLANG_DISAGGREGATION_WAITING_TIMEOUT (300 s), and the router sends the request again.
    """

    title = "Both sides refuse the same lengths"
    kind = Kind.AVAILABILITY

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a pair."""
        return judge_pairs(
            fleet, check=KEY, kind=self.kind, judge_pair=_judge_pair, needs_both=False
        )


def _judge_pair(prefill: Reading, decode: Reading) -> tuple[Verdict, str, Mapping[str, Figure]]:
    near, far = refusal_limits(prefill), refusal_limits(decode)
    lengths = affected_lengths(near, far)
    figures: dict[str, Figure] = {
        "prefill_first_refused": near.lowest,
        "decode_first_refused": far.lowest,
        "lengths": lengths,
    }
    if near.highest != near.lowest:
        figures["prefill_highest_first_refused"] = near.highest
    if far.highest != far.lowest:
        figures["decode_highest_first_refused"] = far.highest
    verdict, reason = _verdict(prefill, decode, lengths)
    return verdict, reason, figures


def affected_lengths(prefill: Limits, decode: Limits) -> list[int] | None:
    """Answer the lengths that one side refuses and the other admits, or None where none is known.

    Ranks that refuse alike on both sides have none; ranks that differ among themselves do.
    """
    if prefill.lowest is None or decode.lowest is None:
        return None
    lowest = min(prefill.lowest, decode.lowest)
    highest = max(prefill.highest or 0, decode.highest or 0)
    return [lowest, highest - 1] if lowest < highest else None


def _verdict(prefill: Reading, decode: Reading, lengths: list[int] | None) -> tuple[Verdict, str]:
    both = (prefill, decode)
    doubts = [doubt for doubt in map(doubt_about, both) if doubt]
    if doubts:
        return Verdict.INCONCLUSIVE, "; ".join(doubts)
    if {one.engine for one in both} != {SGLANG}:
        return Verdict.INCONCLUSIVE, (
            f"what {decode.engine} does with a reservation whose other half was refused is not "
            "known: give both sides the same limits and prove it by a canary out of rotation"
        )
    if lengths:
        return Verdict.FAIL, _hold_up(prefill, decode, lengths)
    unknown = [
        f"the limit of {one.node} is not known: {limits.gap}"
        for one in both
        if (limits := refusal_limits(one)).gap
    ]
    unknown += [doubt for doubt in map(doubt_about_role, both) if doubt]
    if unknown:
        return Verdict.INCONCLUSIVE, "; ".join(unknown)
    return Verdict.PASS, (
        f"{prefill.node} and {decode.node} refuse the same lengths, from "
        f"{tokens(prefill.first_refused)} on"
    )


def _hold_up(prefill: Reading, decode: Reading, lengths: list[int]) -> str:
    first, last = tokens(lengths[0]), tokens(lengths[1])
    near, far = refusal_limits(prefill), refusal_limits(decode)
    if (near.lowest or 0) <= (far.lowest or 0):
        refusing, waiting = prefill.node, decode.node
    else:
        refusing, waiting = decode.node, prefill.node
    return (
        f"{refusing} refuses lengths from {first} on that {waiting} admits to {last}; {waiting} is "
        f"not told and holds what it reserved until its time-out, and the router may send the "
        "request again: give both the same --context-length or the same pool"
    )
