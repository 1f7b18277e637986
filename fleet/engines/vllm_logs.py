"""Figures in the start-up log of vLLM: a source of last resort, and a hint where it is down.

Source: kv_cache_utils.py and interface.py of 0.19 to 0.32 (recorded for 0.32.0); worker.py of the
first engine (public issue 10517).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from fleet.engines.documents import LARGEST_FIGURE
from fleet.engines.loglines import NUMBER, figures_in, lines_of, smallest

_SIZE: Final = re.compile(rf"KV cache size: {NUMBER} tokens")
_CONCURRENCY: Final = re.compile(
    rf"Maximum concurrency for {NUMBER} tokens per request: ([0-9]{{1,12}}(?:\.[0-9]{{1,12}})?)x"
)
_BLOCK: Final = re.compile(rf"attention block size (?:set )?to {NUMBER}")
_FITTED: Final = re.compile(rf"Auto-fit max_model_len: reduced from {NUMBER} to {NUMBER}")
_REFUSED: Final = re.compile(rf"max seq len \({NUMBER}\)[^()]{{0,160}}\({NUMBER}\)")
_ESTIMATE: Final = re.compile(
    rf"max seq len \({NUMBER}\).{{0,400}}estimated maximum model length is {NUMBER}"
)
_CONTEXT_PARALLEL: Final = re.compile(
    r"(?:-dcp|-pcp|(?:decode|prefill)[-_]context[-_]parallel[-_]size)"
    r"[\"']?\s{0,3}[ =:]\s{0,3}([0-9]{1,5})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What the log says, in tokens; None where it says nothing.

    ``pool`` is the printed size and ``implied_pool`` what the printed concurrency makes of it.
    ``refused`` is the (context, tokens that fit) for which the engine would not start, and
    ``fitted`` the (wanted, running) context of an engine that shortened it by itself.
    """

    pool: int | None = None
    implied_pool: int | None = None
    context: int | None = None
    attention_block: int | None = None
    fitted: tuple[int, int] | None = None
    refused: tuple[int, int] | None = None
    context_parallel: int | None = None

    @property
    def smallest_pool(self) -> int | None:
        """Answer the smallest that the log says of the pool.

        A context that the engine fitted by itself is what really fits; the printed size counts a
        block more, which is never usable.
        """
        if self.pool is None and self.implied_pool is None:
            return None
        fitted = None if self.fitted is None else self.fitted[1]
        shown = (self.pool, self.implied_pool, fitted)
        return min(one for one in shown if one is not None)


def read_logs(logs: Sequence[str]) -> LogFacts:
    """Answer the figures of a start-up log; the smallest counts where several engines speak."""
    if not logs:
        return LogFacts()
    implied = _implied(logs)
    return LogFacts(
        pool=smallest(figures_in(logs, _SIZE)),
        implied_pool=min((pool for _, pool in implied), default=None),
        context=max((context for context, _ in implied), default=None),
        attention_block=smallest(figures_in(logs, _BLOCK)),
        fitted=_last_pair(logs, _FITTED),
        refused=_last_pair(logs, _REFUSED) or _last_pair(logs, _ESTIMATE),
        context_parallel=parallel_in(*lines_of(logs)),
    )


def parallel_in(*texts: str) -> int | None:
    """Answer the largest context-parallel size above 1 that a text names, or None."""
    found = [int(match[1]) for text in texts for match in _CONTEXT_PARALLEL.finditer(text)]
    return max((one for one in found if one > 1), default=None)


def _implied(logs: Sequence[str]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for line in lines_of(logs):
        for match in _CONCURRENCY.finditer(line):
            context = int(match[1].replace(",", ""))
            pool = int(context * Decimal(match[2]))
            if 0 < context <= LARGEST_FIGURE and 0 < pool <= LARGEST_FIGURE:
                found.append((context, pool))
    return found


def _last_pair(logs: Sequence[str], pattern: re.Pattern[str]) -> tuple[int, int] | None:
    found = [numbers for numbers in figures_in(logs, pattern) if len(numbers) == 2]  # noqa: PLR2004
    return (found[-1][0], found[-1][1]) if found else None
