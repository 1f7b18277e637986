"""Reads the two figures that people give beside readings: the headroom and the context."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from common.exits import UsageError

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?")
_LARGEST_HEADROOM: Final = 1000


def parse_headroom(value: object, place: str) -> Decimal:
    """Answer a factor of at least 1. Raises UsageError, also for a bool, NaN or infinity."""
    number: Decimal | None = None
    if isinstance(value, Decimal):
        number = value
    elif isinstance(value, str) and _NUMBER.fullmatch(value):
        number = Decimal(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        number = Decimal(str(value))
    if number is None or not number.is_finite():
        raise UsageError(f"{place} is not a number: give a factor on the context, such as 1.25")
    if not 1 <= number <= _LARGEST_HEADROOM:
        raise UsageError(f"{place} is a factor from 1 to {_LARGEST_HEADROOM}, such as 1.25")
    return number


def parse_context(value: object, place: str) -> int | None:
    """Answer a context in tokens, or None where none is named. Raises UsageError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{place} is no whole number of tokens above 0")
    return value
