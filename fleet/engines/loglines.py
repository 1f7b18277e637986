"""Finds figures in start-up log lines; only what a pattern names ever leaves a line.

Engines print their arguments, keys included, when they start, so a line is never kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from fleet.engines.documents import LARGEST_FIGURE

_MOST_LINES: Final = 200_000
_LONGEST_LINE: Final = 4_000
NUMBER: Final = r"([0-9][0-9,]{0,18})"


def lines_of(logs: Sequence[str]) -> Iterator[str]:
    """Answer the single lines of log texts, each cut to a length that is safe to search."""
    left = _MOST_LINES
    for text in logs:
        for line in text.splitlines():
            if left == 0:
                return
            left -= 1
            yield line[:_LONGEST_LINE]


def figures_in(logs: Sequence[str], pattern: re.Pattern[str]) -> list[tuple[int, ...]]:
    """Answer the whole numbers that a pattern finds, line by line; those above 0 only."""
    found: list[tuple[int, ...]] = []
    for line in lines_of(logs):
        for match in pattern.finditer(line):
            numbers = tuple(int(one.replace(",", "")) for one in match.groups() if one)
            if numbers and all(0 < one <= LARGEST_FIGURE for one in numbers):
                found.append(numbers)
    return found


def smallest(found: Sequence[tuple[int, ...]]) -> int | None:
    """Answer the smallest first number, because the smallest engine counts."""
    return min((numbers[0] for numbers in found), default=None)
