"""What one node admits and refuses, rank by rank, and what context it is held against.

Source: SGLang 0.5.5 to 0.5.23, tp_worker: F = min(context - 1, pool - 1) - 5 of each rank, of which
/server_info shows that of rank 0 as ``max_req_input_len``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet.reading import FleetReading, Rank, Reading
from probes.once import once_per_reading

#: Tokens between a pool or a context and the first length that an SGLang rank refuses for it.
SGLANG_MARGIN = 6

#: Engines whose limits follow the arithmetic above.
SGLANG = "sglang"

#: Engine whose --ctx-size is the pool of all slots: a smaller context makes its pool smaller too.
SLOTTED = "llamacpp"

_CONTEXT_FLAGS = {"vllm": "--max-model-len", SLOTTED: "--ctx-size"}

#: Flag, or a person's word, that tells the sliding window in tokens.
WINDOW = "sliding_window"
_WINDOW_FIGURE = re.compile(r"[1-9][0-9]{0,11}")
#: A pool that holds this and a page holds one step of every hybrid model known (Llama 4: chunks).
LARGEST_WINDOW = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """First refused lengths over the ranks of one node; None where not one is known.

    ``gap`` says which limit is missing (empty where all are known): then the true lowest may be
    lower and the true highest may be higher.
    """

    lowest: int | None
    highest: int | None
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Usable tokens of the smallest rank of one node; None where not one is known.

    ``gap`` says which rank shows no pool: then the true figure may be smaller.
    """

    tokens: int | None
    gap: str = ""


@once_per_reading
def own_context(reading: Reading) -> int | None:
    """Answer the context that this node advertises, or None where it cannot be known.

    Where it shows none, F + 6 is its context if that is below every kind of pool, because then only
    the context can be what limits; otherwise the context may be anything above.
    """
    if reading.context is not None:
        return reading.context if reading.context > 0 else None
    return derived_context(reading)


def derived_context(reading: Reading) -> int | None:
    """Answer the context that the limit alone proves, or None where the pool may be what limits."""
    first, zero = reading.first_refused, _rank_zero(reading)
    if reading.engine != SGLANG or first is None or zero is None:
        return None
    smallest = zero.smallest_kind
    derived = first + SGLANG_MARGIN
    return derived if smallest is not None and derived < smallest else None


def least_context(reading: Reading) -> int | None:
    """Answer the smallest context that this node can have, which is more often known."""
    known = own_context(reading)
    if known is not None or reading.engine != SGLANG or reading.first_refused is None:
        return known
    return reading.first_refused + SGLANG_MARGIN


def advertised_context(fleet: FleetReading) -> int | None:
    """Answer the largest context that a router, a person or a node promises, or None."""
    return max(_known([fleet.advertised, *map(own_context, fleet.readings)]), default=None)


def usable_pool(reading: Reading, context: int | None) -> Pool:
    """Answer the pool of the smallest rank, as the engine itself counts it.

    Where rank 0 refuses below the context, its own arithmetic tells its pool: F + 6. That figure
    knows of hybrid and sliding-window pools what the single figures do not.
    """
    if reading.engine != SGLANG:
        return _shown_pool(reading)
    figures = [_pool_of_rank_zero(reading, context)]
    figures += [
        rank.smallest_kind if reading.first_refused is None else rank.pool
        for rank in reading.ranks
        if rank.index != 0
    ]
    silent = sum(figure is None for figure in figures)
    gaps = [*shortcomings(reading, "ranks")]
    if silent and not gaps:
        gaps.append(f"{silent} of its {len(figures)} ranks show no pool")
    return Pool(tokens=min(_known(figures), default=None), gap="; ".join(gaps))


@once_per_reading
def refusal_limits(reading: Reading) -> Limits:
    """Answer the lowest and the highest first refused length over the ranks.

    Rank 0's is the engine's own figure and is never second-guessed. A rank with the very figures of
    rank 0 has its limit too; any other is recomputed from its pool.
    """
    first = reading.first_refused
    if first is None:
        return Limits(lowest=None, highest=None, gap="it shows no first refused length")
    if reading.engine != SGLANG:
        # One front door holds every engine behind it to the same context.
        gap = "; ".join(shortcomings(reading, "first_refused", "context"))
        return Limits(lowest=first, highest=first, gap=gap)
    zero = _rank_zero(reading)
    limits: list[int | None] = [first]
    for rank in reading.ranks:
        if rank.index != 0:
            same = zero is not None and _figures(rank) == _figures(zero)
            limits.append(first if same and rank.pool is not None else _recomputed(reading, rank))
    silent = sum(limit is None for limit in limits)
    gaps = [*shortcomings(reading, "ranks", "first_refused")]
    if silent and not gaps:
        gaps.append(f"{silent} of its {len(limits)} ranks show no pool, so no limit")
    known = _known(limits)
    return Limits(lowest=min(known), highest=max(known), gap="; ".join(gaps))


def shortcomings(reading: Reading, *figures: str) -> Iterator[str]:
    """Answer what the adapter found missing or contradictory about these figures."""
    for entry in reading.incomplete:
        name, _, what = entry.partition(": ")
        if name in figures:
            yield what


def scheduling_step(reading: Reading) -> int | None:
    """Answer the sliding-window tokens that one scheduling step takes, or None without a window.

    A step keeps the window and one page; where the window is not shown it is at least one token.
    Source: upstream change 37610 (256 tokens at a window of 128 and pages of 256 never admit).
    """
    if reading.page_size is None or all(rank.swa_capacity is None for rank in reading.ranks):
        return None
    return reading.page_size + (_window(reading) or 1)


def _window(reading: Reading) -> int | None:
    word = reading.vouched(WINDOW)
    shown = reading.flags.get(WINDOW) or (word.value.strip() if word else "")
    return int(shown) if _WINDOW_FIGURE.fullmatch(shown) else None


def unknown_step(reading: Reading) -> str:
    """Answer that a small sliding-window pool may be below one step, for the window is not told."""
    small = [rank.swa_capacity for rank in reading.ranks if rank.swa_capacity is not None]
    if reading.page_size is None or not small or _window(reading) is not None:
        return ""
    if min(small) >= reading.page_size + LARGEST_WINDOW:
        return ""
    return (
        f"it holds only {min(small):,} sliding-window tokens and does not show its window, so one "
        f"scheduling step may need more: vouch for {WINDOW}"
    )


def step_shortfall(reading: Reading) -> str:
    """Answer that the sliding-window pool is below one step, so that no request ever ends."""
    step = scheduling_step(reading)
    small = [rank.swa_capacity for rank in reading.ranks if rank.swa_capacity is not None]
    if step is None or min(small) >= step:
        return ""
    return (
        f"{reading.node} holds {min(small):,} sliding-window tokens, fewer than the {step:,} of "
        "one scheduling step (window and page), so its first request never ends: give it a larger "
        "--max-total-tokens or --swa-full-tokens-ratio, or smaller pages"
    )


def context_flag(engine: str) -> str:
    """Answer the flag with which an engine is started for a context."""
    return _CONTEXT_FLAGS.get(engine, "--context-length")


def remarks(reading: Reading, *figures: str) -> Iterator[str]:
    """Answer what the adapter says people should know of these figures, such as their source."""
    for note in reading.notes:
        name, _, what = note.partition(": ")
        if name in figures:
            yield what


def first_refused_for(context: int | None, pool: int) -> int:
    """Answer F of an SGLang rank with this pool under this context (None: the pool limits)."""
    return min(_known([context, pool])) - SGLANG_MARGIN


def _shown_pool(reading: Reading) -> Pool:
    """Answer the smallest pool that the adapter read; a rank without one leaves a gap."""
    gap = "; ".join(shortcomings(reading, "ranks", "pool"))
    if not reading.ranks:
        return Pool(tokens=reading.pool, gap=gap)
    known = _known(rank.pool for rank in reading.ranks)
    if len(known) < len(reading.ranks) and not gap:
        gap = f"{len(reading.ranks) - len(known)} of its {len(reading.ranks)} ranks show no pool"
    return Pool(tokens=min(known, default=None), gap=gap)


def _pool_of_rank_zero(reading: Reading, context: int | None) -> int | None:
    first, zero = reading.first_refused, _rank_zero(reading)
    if first is not None and (context is None or first + SGLANG_MARGIN < context):
        return first + SGLANG_MARGIN
    if zero is None:
        return reading.pool
    return zero.smallest_kind if first is None else zero.pool


def _recomputed(reading: Reading, rank: Rank) -> int | None:
    if reading.engine != SGLANG or rank.pool is None:
        return None
    return first_refused_for(own_context(reading), rank.pool)


def _rank_zero(reading: Reading) -> Rank | None:
    return next((rank for rank in reading.ranks if rank.index == 0), None)


def _figures(rank: Rank) -> tuple[int | None, int | None]:
    return rank.pool, rank.swa_capacity


def _known(figures: Iterable[int | None]) -> list[int]:
    return [figure for figure in figures if figure is not None]
