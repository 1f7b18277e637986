"""Tunes the garbage collector of a worker, through whose hands thousands of documents go."""

from __future__ import annotations

import gc
from typing import Final

#: New containers before the youngest are looked through; Python's own figure is 700, which one
#: answer of an engine already has.
_YOUNG: Final = 50_000
#: Rounds of a younger generation before the next older one is looked through.
_ROUNDS: Final = 20


def collect_rarely() -> None:
    """Leave what a program loaded at its start alone, and look through the rest less often.

    A sweep spends a tenth less CPU time with it (docs/bench.md); what refers to itself in a circle
    is still found, only later.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _ROUNDS, _ROUNDS)
