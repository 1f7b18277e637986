"""Remembers names of fields that a rule does not hold for: nodes show the same few hundred."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

_MOST: Final = 8192
#: No engine has a longer name; one that a hostile node makes up is not remembered.
_LONGEST: Final = 120


class NameRule:
    """A rule over names of fields, quick for names that were seen before and did not pass."""

    def __init__(self, holds: Callable[[str], bool]) -> None:
        self._holds = holds
        self._others: set[str] = set()

    def picked(self, names: Iterable[str]) -> list[str]:
        """Answer the names that the rule holds for, in order."""
        others = self._others
        return [name for name in names if name not in others and self._look(name)]

    def _look(self, name: str) -> bool:
        if self._holds(name):
            return True
        if len(self._others) < _MOST and len(name) <= _LONGEST:
            self._others.add(name)
        return False
