"""What clean rounds exclude: the rate above which something would surely have been seen."""

from __future__ import annotations

from typing import Final

from probes.canary.controls import count_of

#: To see nothing in n rounds has a chance of 1 in 20, or 1 in 1,000, at these rates times 1 / n.
#: Source: detection.md A2.
_AT_95: Final = 3.0
_AT_999: Final = 6.9


def excluded_rate(rounds: int) -> float:
    """Answer the rate per round that so many clean rounds exclude at 95 %; 1 is none."""
    return min(1.0, _AT_95 / rounds) if rounds else 1.0


def excluded_rate_999(rounds: int) -> float:
    """Answer the rate per round that so many clean rounds exclude at 99.9 %; 1 is none."""
    return min(1.0, _AT_999 / rounds) if rounds else 1.0


def describe_exclusion(rounds: int) -> str:
    """Answer in words what so many clean rounds exclude."""
    likely, surely = excluded_rate(rounds), excluded_rate_999(rounds)
    shown = count_of(rounds, "clean round")
    if likely >= 1.0:
        return f"{shown} cannot exclude any leak rate at 95 %"
    at_999 = f"above {surely:.2g} at 99.9 %" if surely < 1.0 else "none at 99.9 %"
    return f"{shown} exclude leak rates above {likely:.2g} a round at 95 %, {at_999}"
