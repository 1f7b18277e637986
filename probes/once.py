"""Works out once for a reading what a dozen gates ask of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

from fleet.reading import Reading

T = TypeVar("T")
#: Readings of a deployment are judged together, so not many need to be kept in mind.
_MOST: Final = 512


def once_per_reading(answer: Callable[[Reading], T]) -> Callable[[Reading], T]:
    """Answer a function that is pure in one reading, with its last answers kept in mind.

    A reading holds mappings, so it has no hash. It is known by its identity, and is kept beside its
    answer: no other object can come to have the same one meanwhile.
    """
    kept: dict[int, tuple[Reading, T]] = {}

    @wraps(answer)
    def answered(reading: Reading) -> T:
        known = kept.get(id(reading))
        if known is not None and known[0] is reading:
            return known[1]
        found = answer(reading)
        if len(kept) >= _MOST:
            kept.clear()
        kept[id(reading)] = (reading, found)
        return found

    return answered
