"""Gate: no single prompt can sit at the head of a node's queue for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.contract import GATES
from probes.doubts import doubt_about, doubt_about_role, tokens
from probes.hang import DEFAULT_PAGE, DEFAULT_RESERVE, longest_scheduled, longest_that_fits
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import SGLANG, Limits, Pool, own_context, refusal_limits, usable_pool
from probes.vouched import Word, resting, resting_figures, word_about

KEY = "decode_admission"

RESERVE = "num_reserved_decode_tokens"


@GATES.register(KEY)
class DecodeAdmission:
    """Holds what a node admits against what it can ever schedule, reserve and page included.

    The whole pool counts as free: this judges the configuration, so a loaded node can only be worse
    off than a pass says. Unit: tokens; ``hang_band`` is [first, last] of the lengths that are
    admitted and never scheduled, or null.
    Source: seen on sglang 0.5.19 (1,010 tokens at a pool of 1,024 with 16 reserved); no later
    version was shown to be free of it.
    """

    title = "No prompt can freeze a node"
    kind = Kind.AVAILABILITY

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a node whose admission rule is known."""
        others = sorted({one.engine for one in fleet.readings} - {SGLANG})
        if others:
            yield Skipped(check=KEY, reason=f"no admission rule is known of {', '.join(others)}")
        elif not fleet.readings:
            yield Skipped(check=KEY, reason="no node was named")
        for reading in fleet.readings:
            if reading.engine == SGLANG:
                yield _judge_node(_Admission.of(reading), self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admission:
    """What one node admits, and the longest prompt that it can ever schedule."""

    reading: Reading
    limits: Limits
    pool: Pool
    reserve: Word

    @classmethod
    def of(cls, reading: Reading) -> _Admission:
        shown = None if reading.reserve is None else Word(value=str(reading.reserve))
        return cls(
            reading=reading,
            limits=refusal_limits(reading),
            pool=_pool_of(reading),
            reserve=shown or word_about(reading, RESERVE),
        )

    @property
    def is_decode(self) -> bool:
        return self.reading.role is Role.DECODE

    @property
    def kept(self) -> int | None:
        """Answer the reserve; None where it is not known, and the default is taken."""
        value = self.reserve.value
        return int(value) if value is not None and value.isdecimal() else None

    @property
    def longest(self) -> int | None:
        """Answer the longest prompt that an empty node schedules."""
        free = self.pool.tokens
        if free is None:
            return None
        if self.is_decode:
            return max(0, longest_that_fits(free=free, reserve=self.kept, max_new_tokens=1))
        page = self.reading.page_size
        return max(0, longest_scheduled(free=free, page_size=page, max_new_tokens=1))

    @property
    def band(self) -> list[int] | None:
        """Answer the lengths that some rank admits and an empty node cannot schedule."""
        longest, highest = self.longest, self.limits.highest
        if longest is None or highest is None or longest >= highest - 1:
            return None
        return [longest + 1, highest - 1]


def _pool_of(reading: Reading) -> Pool:
    """Answer the pool under the node's own context, because that is what limits it.

    Without a context and a pool the limit alone tells only that the pool is not below it.
    """
    context = own_context(reading)
    if context is None and reading.pool is None and all(one.pool is None for one in reading.ranks):
        return Pool(tokens=None)
    return usable_pool(reading, context)


def _judge_node(one: _Admission, kind: Kind) -> Check:
    verdict, reason = _verdict(one)
    figures: dict[str, Figure] = {
        "hang_band": one.band,
        "longest_scheduled": one.longest,
        "last_admitted": None if one.limits.highest is None else one.limits.highest - 1,
        "pool": one.pool.tokens,
        **_kept_figures(one),
        **resting_figures([one.reserve]),
    }
    return Check(
        check=KEY,
        target=one.reading.node,
        verdict=verdict,
        kind=kind,
        reason=reason,
        figures=figures,
    )


def _kept_figures(one: _Admission) -> Mapping[str, Figure]:
    if not one.is_decode:
        return {"page_size": one.reading.page_size or DEFAULT_PAGE}
    return {
        "reserve": DEFAULT_RESERVE if one.kept is None else one.kept,
        "reserve_assumed": one.kept is None,
    }


def _verdict(one: _Admission) -> tuple[Verdict, str]:
    node, band = one.reading.node, one.band
    doubt = doubt_about(one.reading)
    if doubt:
        return Verdict.INCONCLUSIVE, doubt
    if band:
        return Verdict.FAIL, (
            f"{node} admits {tokens(band[0])} to {tokens(band[1])} tokens, but even an empty pool "
            f"of {tokens(one.pool.tokens)} cannot schedule them{_beside(one)}: one such prompt "
            f"holds up every request behind it; {_cure(one)}{resting([one.reserve])}"
        )
    unknown = [*_unknown(one)]
    if unknown:
        return Verdict.INCONCLUSIVE, "; ".join(unknown)
    return Verdict.PASS, (
        f"{node}, when its pool is empty, can schedule every length that it admits"
        f"{_beside(one)}{resting([one.reserve])}"
    )


def _unknown(one: _Admission) -> Iterator[str]:
    node = one.reading.node
    if one.limits.gap:
        yield f"what {node} admits is not known: {one.limits.gap}"
    if one.pool.tokens is None:
        yield f"{node} shows no pool: ask it at its own address, with its key"
    elif one.pool.gap:
        yield f"{node} cannot be vouched for: {one.pool.gap}"
    role_doubt = doubt_about_role(one.reading)
    if role_doubt:
        yield role_doubt


def _beside(one: _Admission) -> str:
    if one.is_decode:
        told = "" if one.kept is not None else ", assumed because it is not shown"
        reserve = DEFAULT_RESERVE if one.kept is None else one.kept
        return f" beside its reserve of {tokens(reserve)}{told}"
    return f" beside one page of {tokens(one.reading.page_size or DEFAULT_PAGE)}"


def _cure(one: _Admission) -> str:
    if one.is_decode:
        return "lower --context-length on every node, or --num-reserved-decode-tokens here"
    return "lower --context-length on every node, or give it a larger pool"
