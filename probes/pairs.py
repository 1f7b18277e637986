"""What every gate over pairs shares: which pairs there are, and what a missing side means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.doubts import doubt_about, doubt_about_role
from probes.judgement import Check, Figure, Kind, Skipped

#: Judges one prefill and one decode reading.
PairRule = Callable[[Reading, Reading], tuple[Verdict, str, Mapping[str, Figure]]]


def judge_pairs(
    fleet: FleetReading, *, check: str, kind: Kind, judge_pair: PairRule, needs_both: bool
) -> Iterator[Check | Skipped]:
    """Answer one check a pair, or what stands in its place.

    With ``needs_both`` a side that nobody named is inconclusive; else the gate does not apply.
    """
    pairs = fleet.pairs
    for prefill, decode in pairs:
        verdict, reason, figures = judge_pair(prefill, decode)
        yield Check(
            check=check,
            target=f"{prefill.node}/{decode.node}",
            verdict=verdict,
            kind=kind,
            reason=reason,
            figures=figures,
        )
    strays = [_stray(reading, check, kind) for reading in fleet.readings if is_stray(reading)]
    yield from strays
    missing = _missing_side(fleet)
    if pairs or (strays and missing is None):
        return
    if missing is None:
        yield Skipped(check=check, reason="no node is a prefill or decode node: there is no pair")
    elif needs_both:
        yield _half_a_pair(fleet, check, kind, missing)
    else:
        yield Skipped(check=check, reason=f"no {missing} node was named: there is no pair")


def is_stray(reading: Reading) -> bool:
    """Answer whether a node that was named as unified may run as one side of a pair.

    A node that could not be read is not one: its pool check says so already.
    """
    return reading.role is Role.UNIFIED and reading.is_read and bool(doubt_about(reading))


def _stray(reading: Reading, check: str, kind: Kind) -> Check:
    """Answer that a pair exists which nobody named: its gate must not be skipped."""
    return Check(
        check=check,
        target=reading.node,
        verdict=Verdict.INCONCLUSIVE,
        kind=kind,
        reason=doubt_about(reading),
    )


def _missing_side(fleet: FleetReading) -> Role | None:
    if not fleet.is_split:
        return None
    return Role.DECODE if fleet.of_role(Role.PREFILL) else Role.PREFILL


def _half_a_pair(fleet: FleetReading, check: str, kind: Kind, missing: Role) -> Check:
    present = ", ".join(one.node for one in fleet.readings if one.role is not Role.UNIFIED)
    figures: dict[str, Figure] = {"band": None}
    return Check(
        check=check,
        target=f"{present} without {missing}",
        verdict=Verdict.INCONCLUSIVE,
        kind=kind,
        reason=(
            f"no {missing} node was named beside {present}, so nobody can say what the other side "
            f"does with a refused prompt: name every {missing} node too"
        ),
        figures=figures,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What one side of a pair says of itself, by name; absent or None is not shown."""

    reading: Reading
    terms: Mapping[str, str | None]


def compare_terms(
    prefill: Terms, decode: Terms, *, wanted: Iterable[str], cure: str
) -> tuple[Verdict, str, Mapping[str, Figure]]:
    """Answer whether both sides say the same of what is wanted and of all that either names."""
    doubts = [doubt for doubt in (doubt_about(one.reading) for one in (prefill, decode)) if doubt]
    if doubts:
        return Verdict.INCONCLUSIVE, "; ".join(doubts), {}
    both = f"{prefill.reading.node} and {decode.reading.node}"
    if _say_the_same(prefill, decode, wanted):
        return Verdict.PASS, f"{both} agree in {', '.join(sorted(prefill.terms))}", {}
    names = sorted({*prefill.terms, *decode.terms, *wanted})
    unlike = {
        name: f"{prefill.terms[name]} / {decode.terms[name]}"
        for name in names
        if None not in {prefill.terms.get(name), decode.terms.get(name)}
        if prefill.terms[name] != decode.terms[name]
    }
    if unlike:
        told = ", ".join(f"{name} ({values})" for name, values in unlike.items())
        return Verdict.FAIL, f"{both} differ in {told}: {cure}", unlike
    unknown = [*_silences(prefill, names), *_silences(decode, names)]
    told = "; ".join(unknown) or f"{both} show nothing that could be compared"
    return Verdict.INCONCLUSIVE, told, {}


def _say_the_same(prefill: Terms, decode: Terms, wanted: Iterable[str]) -> bool:
    """Answer whether both sides show all of the same, and something at all."""
    return (
        bool(prefill.terms)
        and prefill.terms == decode.terms
        and None not in prefill.terms.values()
        and all(name in prefill.terms for name in wanted)
        and not (doubt_about_role(prefill.reading) or doubt_about_role(decode.reading))
    )


def _silences(side: Terms, names: list[str]) -> Iterator[str]:
    unshown = [name for name in names if side.terms.get(name) is None]
    if unshown:
        yield f"{side.reading.node} does not show {', '.join(unshown)}"
    role_doubt = doubt_about_role(side.reading)
    if role_doubt:
        yield role_doubt
