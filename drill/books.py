"""What a node counts and remembers of its own work: counters, log lines, traces of answers."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

_TRACES_KEPT = 16
_SLOTS_KEPT = 4_000_000
"""Bounds what the traces of answers to very long prompts hold: 16 bytes a slot."""
_LOG_LINES_KEPT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Which slots an answer attended and who had written them last.

    Shape: `slots` and `writers` have one entry an attended prompt position, in order; `rids` names
    the writers that are still known. `shared` are positions that another request of the same salt
    wrote and that the prefix cache gave by right.
    """

    rid: str
    serial: int
    transferred: int
    slots: array[int]
    writers: array[int]
    rids: Mapping[int, str]
    shared: frozenset[int] = frozenset()

    @property
    def not_own(self) -> list[int]:
        """Answer the positions that the request itself did not write and has no right to."""
        others = [at for at, writer in enumerate(self.writers) if writer != self.serial]
        return [at for at in others if at not in self.shared] if self.shared else others

    @property
    def foreign(self) -> list[int]:
        """Answer the positions that another request wrote last."""
        return [at for at in self.not_own if self.writers[at] >= 0]


@dataclass(slots=True)
class Books:
    """The counters of one process; a restart opens new ones."""

    counts: Counter[str] = field(default_factory=Counter)
    http: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    log: deque[str] = field(default_factory=lambda: deque(maxlen=_LOG_LINES_KEPT))
    traces: deque[Trace] = field(default_factory=lambda: deque(maxlen=_TRACES_KEPT))

    def note(self, trace: Trace) -> None:
        """Keep a trace; the oldest go when there are too many, or too long ones."""
        self.traces.append(trace)
        while len(self.traces) > 1 and sum(len(one.slots) for one in self.traces) > _SLOTS_KEPT:
            self.traces.popleft()
