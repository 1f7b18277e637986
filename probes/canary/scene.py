"""The figures of the pairs that a round reaches, as a plan needs them: read, never guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.reading import FleetReading, Reading, Role
from probes.canary.budget import allowance_of
from probes.canary.rounds import Duty
from probes.hang import hang_band, longest_scheduled, longest_that_fits
from probes.limits import least_context, refusal_limits

#: Taken where a decode node does not show its page size: then a page is a token.
_NO_PAGES = 1
HOST_TIER = "host memory"
DISK_TIER = "disk or store"
#: Engines that give each request a slot. Source: llama.cpp, recorded; where its slots share one
#: pool its free tokens are unknown, and nothing is sent.
_SLOTTED = frozenset({"llamacpp"})
#: From a node's first refused length to its longest sequence, less the one token that it keeps.
_ROOM_ABOVE_LIMIT = 4


class FigureMissing(Exception):
    """A node does not show a figure without which no length can be chosen; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFigures:
    """One prefill x decode pair: from where some rank refuses, and from where every rank does.

    A unified node is a pair with itself. Unit: tokens. ``reserve`` None: not shown. ``has_slots``:
    each request has a slot of its own that holds all that is admitted, so none can block it.
    """

    name: str
    prefill_first_refused: int
    prefill_all_refuse: int
    decode_first_refused: int
    decode_all_refuse: int
    prefill_free: int
    prefill_page: int | None
    decode_free: int
    reserve: int | None
    is_unified: bool = False
    has_slots: bool = False

    @property
    def first_refused(self) -> int:
        """Answer the shortest length that some rank of either side refuses."""
        return min(self.prefill_first_refused, self.decode_first_refused)

    @property
    def all_refuse(self) -> int:
        """Answer the shortest length that this pair refuses whichever rank is asked."""
        return min(self.prefill_all_refuse, self.decode_all_refuse)

    def longest_scheduled(self, max_new_tokens: int) -> int:
        """Answer the longest prompt that the side which computes it can schedule."""
        if self.has_slots:
            return self.prefill_free - max_new_tokens
        return longest_scheduled(
            free=self.prefill_free,
            page_size=self.prefill_page,
            # Of a split request prefill makes one token only, whatever was asked.
            max_new_tokens=max_new_tokens if self.is_unified else 1,
        )

    def blocked_at(self, length: int, max_new_tokens: int) -> str:
        """Answer why this length could block a node of this pair, or nothing where it cannot."""
        if self.has_slots:
            return ""
        scheduled = self.longest_scheduled(max_new_tokens)
        if scheduled < length < self.prefill_all_refuse:
            return (
                f"hang band of {self.name}, lengths {scheduled + 1:,} to "
                f"{self.prefill_all_refuse - 1:,}: the node that computes the prompt admits them, "
                f"has {self.prefill_free:,} tokens free and could never schedule them, so such a "
                "prompt blocks its queue; not sent"
            )
        band = hang_band(
            free=self.decode_free,
            reserve=self.reserve,
            max_new_tokens=max_new_tokens,
            last_admitted=self.last_reserved,
        )
        if band is None or not band[0] <= length <= band[1]:
            return ""
        return (
            f"hang band of {self.name}, lengths {band[0]:,} to {band[1]:,}: decode admits "
            f"them, has {self.decode_free:,} tokens free and could never reserve them, so "
            "such a prompt blocks its queue; not sent"
        )

    @property
    def last_reserved(self) -> int:
        """Answer the longest length for which some decode rank still reserves pages."""
        return self.decode_all_refuse - 1

    @property
    def band(self) -> tuple[int, int] | None:
        """Answer the lengths that prefill refuses and decode admits."""
        first, last = self.prefill_first_refused, self.last_reserved
        return (first, last) if first <= last else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a plan chooses its lengths from. Unit: tokens.

    ``pool`` is the smallest decode pool, ``fill`` the sum of all of them. ``context`` is None where
    nobody shows it. ``allowance`` is what the round may cost in rotation. ``seed`` is the round's.
    ``chunks`` are the sizes in which nodes compute long prompts, as they show them. ``tiers`` are
    the places beyond the pool that readings show to be on.
    """

    target: str
    pairs: tuple[PairFigures, ...]
    page_size: int
    pool: int
    fill: int
    context: int | None = None
    allowance: int = 0
    seed: int = 0
    chunks: tuple[int, ...] = ()
    tiers: tuple[str, ...] = ()

    @property
    def first_refused(self) -> int:
        """Answer the shortest length that any pair refuses: F."""
        return min(pair.first_refused for pair in self.pairs)

    @property
    def last_admitted(self) -> int:
        """Answer the longest length that every pair admits: L."""
        return self.first_refused - 1

    @property
    def all_refuse(self) -> int:
        """Answer the shortest length that every pair refuses."""
        return max(pair.all_refuse for pair in self.pairs)

    @property
    def decode_last(self) -> int:
        """Answer the longest length for which any decode node still reserves pages."""
        return max(pair.last_reserved for pair in self.pairs)

    @property
    def band(self) -> tuple[int, int] | None:
        """Answer the lengths that some prefill refuses and some decode admits."""
        bands = [pair.band for pair in self.pairs if pair.band is not None]
        if not bands:
            return None
        return min(first for first, _ in bands), max(last for _, last in bands)

    def duty_at(self, length: int) -> Duty:
        """Answer what every pair owes a prompt of this length."""
        if length < self.first_refused:
            return Duty.ANSWER
        return Duty.REFUSAL if length >= self.all_refuse else Duty.EITHER

    def room_at(self, length: int) -> int:
        """Answer how many new tokens may be asked at this length without being cut or refused.

        Below the context, because the tokenizer refuses what reaches beyond it, and such a refusal
        says nothing about the pool. Within what decode holds for one request, and within its free
        pages beside the prompt's own, because it silently cuts the answer there, which would look
        like an abort. Source: SGLang 0.5.19 to 0.5.23, tokenizer_manager and scheduler.
        """
        whole_pages = -(-length // self.page_size) * self.page_size
        rooms = [pair.decode_first_refused + _ROOM_ABOVE_LIMIT - length for pair in self.pairs]
        rooms += [pair.decode_free - whole_pages - 1 for pair in self.pairs]
        if self.context is not None:
            rooms.append(self.context - 1 - length)
        return min(rooms)

    def longest_fitting(self, max_new_tokens: int) -> int:
        """Answer the longest prompt that every node has room to schedule and to reserve."""
        return min(
            min(
                pair.longest_scheduled(max_new_tokens),
                longest_that_fits(
                    free=pair.decode_free, reserve=pair.reserve, max_new_tokens=max_new_tokens
                ),
            )
            for pair in self.pairs
        )

    def hang_at(self, length: int, max_new_tokens: int) -> str:
        """Answer why this length could block a node, or nothing where it cannot."""
        blocked = (pair.blocked_at(length, max_new_tokens) for pair in self.pairs)
        return next(filter(None, blocked), "")


def build_scene(
    readings: Sequence[Reading], *, target: str, grant_tokens: int | None = None
) -> Scene:
    """Answer the figures of every pair among these readings. Raises FigureMissing."""
    fleet = FleetReading(readings=tuple(readings))
    pairs = fleet.pairs or tuple((one, one) for one in fleet.of_role(Role.UNIFIED))
    if not pairs:
        raise FigureMissing("there is no prefill and decode pair, and no unified node, to probe")
    holders = {decode.node: decode for _, decode in pairs}.values()
    pools = [_pool_of(decode) for decode in holders]
    contexts = [context for one in readings if (context := least_context(one)) is not None]
    return Scene(
        target=target,
        pairs=tuple(_figures(prefill, decode) for prefill, decode in pairs),
        page_size=min((one.page_size or _NO_PAGES for one in holders), default=_NO_PAGES),
        pool=min(pools),
        fill=sum(pools),
        context=min(contexts, default=None),
        allowance=allowance_of(min(pools), grant_tokens),
        chunks=tuple(sorted({size for one in readings if (size := _chunk_of(one))})),
        tiers=tuple(sorted({tier for one in readings for tier in _tiers_of(one)})),
    )


def _figures(prefill: Reading, decode: Reading) -> PairFigures:
    refusing, admitting = _limits(prefill), _limits(decode)
    is_unified = prefill is decode
    return PairFigures(
        name=prefill.node if is_unified else f"{prefill.node}/{decode.node}",
        prefill_first_refused=refusing[0],
        prefill_all_refuse=refusing[1],
        decode_first_refused=admitting[0],
        decode_all_refuse=admitting[1],
        prefill_free=_free_of(prefill),
        prefill_page=prefill.page_size,
        decode_free=_free_of(decode),
        # A unified node keeps no reserve for prompts that arrive from elsewhere.
        reserve=0 if is_unified else decode.reserve,
        is_unified=is_unified,
        has_slots=prefill.engine in _SLOTTED,
    )


def _chunk_of(reading: Reading) -> int | None:
    """Answer in how many tokens at a time a node computes a prompt; None: it does not, or says not.

    Source: chunked_prefill_size of SGLang, -1 where it is off.
    """
    if reading.role is Role.DECODE:
        return None
    said = reading.flags.get("chunked_prefill_size") or ""
    return int(said) if said.isdecimal() and int(said) > 0 else None


def _tiers_of(reading: Reading) -> Iterator[str]:
    """Answer the tiers beyond the pool that a node shows to be on.

    Source: enable_hierarchical_cache and hicache_storage_backend of SGLang.
    """
    if reading.flags.get("enable_hierarchical_cache") == "true":
        yield HOST_TIER
        if reading.flags.get("hicache_storage_backend") not in {None, "", "none", "None"}:
            yield DISK_TIER


def _limits(reading: Reading) -> tuple[int, int]:
    limits = refusal_limits(reading)
    if limits.gap or limits.lowest is None or limits.highest is None:
        raise FigureMissing(f"the limit of {reading.node} is not known: {limits.gap}")
    return limits.lowest, limits.highest


def _free_of(reading: Reading) -> int:
    free = None if reading.load is None else reading.load.free_tokens
    if free is None:
        raise FigureMissing(
            f"{reading.node} does not show its free pool, so no length is known not to block it: "
            "make /v1/loads or /metrics readable"
        )
    return free


def _pool_of(reading: Reading) -> int:
    ranks = [rank.pool for rank in reading.ranks]
    known = [pool for pool in ranks if pool is not None]
    if ranks and len(known) == len(ranks):
        return sum(known)
    if reading.pool is None:
        raise FigureMissing(f"{reading.node} does not show its pool, so it cannot be filled")
    return reading.pool
