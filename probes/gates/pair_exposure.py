"""Gate: no length exists that prefill refuses and decode answers from pages it never received."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.doubts import doubt_about, doubt_about_role, tokens
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import SGLANG, Limits, refusal_limits
from probes.pairs import judge_pairs
from probes.versions import SAFE_SINCE, Placement, place_version

KEY = "pair_exposure"

#: Engines for which the rule below was shown on the running engine.
ENGINES_WITH_RULE = frozenset({SGLANG})


@GATES.register(KEY)
class PairExposure:
    """Compares where prefill refuses with what decode admits, and asks whether a guard stands.

    Unit: tokens; ``band`` is [lowest F over prefill ranks, highest L over decode ranks] or null.
    Source: seen on sglang 0.5.19 with pools of 1,024 and 4,096; upstream issue 30233.
    """

    title = "No length is refused by prefill and answered by decode"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a pair; a pair that lacks a side is not proved safe."""
        return judge_pairs(
            fleet, check=KEY, kind=self.kind, judge_pair=_judge_pair, needs_both=True
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """One prefill x decode pair with all that the rule asks about it."""

    prefill: Reading
    decode: Reading
    refusing: Limits
    admitting: Limits
    placed: Placement

    @property
    def band(self) -> tuple[int, int] | None:
        """Answer the lengths that some prefill rank refuses and some decode rank admits."""
        if self.refusing.lowest is None or self.admitting.highest is None:
            return None
        last = self.admitting.highest - 1
        return (self.refusing.lowest, last) if self.refusing.lowest <= last else None

    @property
    def is_unguarded(self) -> bool:
        """Answer whether prefill is known to hand a refused prompt on (safety rule 10)."""
        guards = self.placed.guards
        return self.prefill.allow_auto_truncate is True or (
            guards is not None and not guards.close_exposure
        )


def _judge_pair(prefill: Reading, decode: Reading) -> tuple[Verdict, str, Mapping[str, Figure]]:
    pair = _Pair(
        prefill=prefill,
        decode=decode,
        refusing=refusal_limits(prefill),
        admitting=refusal_limits(decode),
        placed=place_version(prefill.engine, prefill.version),
    )
    verdict, reason = _verdict(pair)
    figures: dict[str, Figure] = {
        "band": list(pair.band) if pair.band else None,
        "prefill_first_refused": pair.refusing.lowest,
        "decode_last_admitted": None
        if pair.admitting.highest is None
        else pair.admitting.highest - 1,
        "prefill_version": prefill.version,
        "prefill_auto_truncate": prefill.allow_auto_truncate,
    }
    return verdict, reason, figures


def _verdict(pair: _Pair) -> tuple[Verdict, str]:
    doubts = [doubt for doubt in map(doubt_about, (pair.prefill, pair.decode)) if doubt]
    if doubts:
        return Verdict.INCONCLUSIVE, "; ".join(doubts)
    if {pair.prefill.engine, pair.decode.engine} - ENGINES_WITH_RULE:
        return Verdict.INCONCLUSIVE, (
            f"no rule is known that tells whether a pair of {pair.prefill.engine} and "
            f"{pair.decode.engine} is exposed; prove it by canaries out of rotation"
        )
    if pair.band and pair.is_unguarded:
        return Verdict.FAIL, _exposure(pair, pair.band)
    unknown = [*_unknown(pair)]
    if unknown:
        return Verdict.INCONCLUSIVE, "; ".join(unknown)
    return Verdict.PASS, _safety(pair)


def _unknown(pair: _Pair) -> Iterator[str]:
    """Answer every reason why the pair is neither shown exposed nor shown safe."""
    for reading, limits in ((pair.prefill, pair.refusing), (pair.decode, pair.admitting)):
        if limits.gap:
            yield f"the limit of {reading.node} is not known: {limits.gap}"
        role_doubt = doubt_about_role(reading)
        if role_doubt:
            yield role_doubt
    if pair.band:
        yield from _unknown_guards(pair, pair.band)
    reach, door = pair.refusing.highest, pair.admitting.lowest
    if reach is not None and door is not None and reach > door:
        yield (
            f"{pair.decode.node} refuses from {tokens(door)} what {pair.prefill.node} admits to "
            f"{tokens(reach - 1)}: give both the same --context-length and pool"
        )


def _unknown_guards(pair: _Pair, band: tuple[int, int]) -> Iterator[str]:
    between = f"lengths {tokens(band[0])} to {tokens(band[1])} are refused by {pair.prefill.node}"
    if pair.placed.guards is None:
        yield f"{between} and admitted by {pair.decode.node}, and {pair.placed.problem}"
    elif pair.prefill.allow_auto_truncate is None:
        yield f"{between} unless it truncates them, and it does not show --allow-auto-truncate"


def _exposure(pair: _Pair, band: tuple[int, int]) -> str:
    prefill, decode = pair.prefill, pair.decode
    seen = (
        f"{prefill.node} refuses from {tokens(band[0])} what {decode.node} admits to "
        f"{tokens(band[1])}"
    )
    same = "give every node the same --context-length or pool"
    if prefill.allow_auto_truncate is True:
        return (
            f"{seen}; with --allow-auto-truncate {prefill.node} sends fewer pages than "
            f"{decode.node} reads, in every version: remove the flag, and {same}"
        )
    since = SAFE_SINCE[prefill.engine]
    return (
        f"{seen}; {prefill.version} has no guard, so such a prompt is answered from other "
        f"requests' pages: upgrade {prefill.node} to {since} or later, and {same}"
    )


def _safety(pair: _Pair) -> str:
    prefill, decode = pair.prefill, pair.decode
    if pair.band is None:
        return (
            f"{prefill.node} and {decode.node} refuse the same lengths, from "
            f"{tokens(pair.refusing.lowest)} on"
        )
    note = f"; {pair.placed.note}" if pair.placed.note else ""
    return (
        f"{prefill.node} refuses from {tokens(pair.band[0])} what {decode.node} admits to "
        f"{tokens(pair.band[1])}, but {prefill.version} hands nothing of it on; unequal limits "
        f"still hold up {decode.node}: give both the same --context-length or pool{note}"
    )
