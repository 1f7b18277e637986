"""How likely it is by chance that so many of one sample lie below those of another."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, erfc, sqrt
from typing import Final

#: Up to so many pairs every order is counted; beyond it the normal curve is close enough.
_COUNTED_PAIRS: Final = 900


def chance_of_sooner(sooner: Sequence[float], later: Sequence[float]) -> float:
    """Answer how likely the first sample lies so far below the second where nothing orders them.

    One-sided; pairs that tie count as if the first were not below. Both samples hold something.
    Source: Mann and Whitney, 1947.
    """
    below = sum(one < other for one in sooner for other in later)
    first, second = len(sooner), len(later)
    if first * second > _COUNTED_PAIRS:
        return _approximated(below, first, second)
    orders = _orders(first, second)
    return float(sum(orders[below:]) / comb(first + second, first))


def least_chance(first: int, second: int) -> float:
    """Answer the chance of samples of these sizes that do not overlap at all."""
    return 1 / comb(first + second, first)


def _orders(first: int, second: int) -> list[int]:
    """Answer how many orders of two samples have so many pairs below, by their number.

    These are the coefficients of the Gaussian binomial.
    """
    counts = [1] + [0] * (first * second)
    for step in range(1, second + 1):
        for place in range(len(counts) - 1, first + step - 1, -1):
            counts[place] -= counts[place - first - step]
        for place in range(step, len(counts)):
            counts[place] += counts[place - step]
    return counts


def _approximated(below: int, first: int, second: int) -> float:
    spread = sqrt(first * second * (first + second + 1) / 12)
    return 0.5 * erfc((below - 0.5 - first * second / 2) / (spread * sqrt(2)))
