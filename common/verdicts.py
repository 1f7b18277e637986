"""The five verdicts and how they add up; silence never adds up to a pass."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What a check found. Only ``PASS`` opens a door."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_EXERCISED = "not_exercised"
    ERROR = "error"


#: Worst first. A known failure outranks our own fault, which outranks what could not be read.
WORST_FIRST = (
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.INCONCLUSIVE,
    Verdict.NOT_EXERCISED,
    Verdict.PASS,
)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Answer the worst of the verdicts; ``inconclusive`` when there are none."""
    present = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in present), Verdict.INCONCLUSIVE)
