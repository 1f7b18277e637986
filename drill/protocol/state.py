"""A state of the protocol: where both legs of every request stand, and what each page holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import NamedTuple

NOBODY = -1
"""The writer of a page that was never written."""

EARLIER = -2
"""The writer of what a request of tenant A left before the first request came."""


class Prefill(IntEnum):
    """Where the leg on prefill stands; a refusal of prefill is no place, as in the engine."""

    QUEUED = 0
    ADMITTED = 1
    COMPUTED = 2
    POSTED = 3
    SENT = 4
    REFUSED = 5
    STOPPED = 6


class Decode(IntEnum):
    """Where the leg on decode stands."""

    QUEUED = 0
    RESERVED = 1
    ADMITTED = 2
    SPOKEN = 3
    COPYING = 4
    ANSWERED = 5
    REFUSED = 6
    ENDED = 7


class Way(IntEnum):
    """How the content of a page got there, seen from the request that holds it now."""

    BEFORE = 0
    SENT = 1
    LATE = 2
    SWAPPED = 3


class Content(NamedTuple):
    """Who wrote a page last, and how."""

    writer: int
    way: Way = Way.BEFORE

    @property
    def is_unwritten(self) -> bool:
        """Tell whether nobody ever wrote the page."""
        return self.writer == NOBODY


class Run(NamedTuple):
    """One request. A tuple, because states are compared by the ten thousand.

    `pages` are decode's pages of the request, kept after their release while a write or a copy can
    still reach them; `holds` tells whether they are the request's. `wired` is how many pages a
    posted transfer has on the wire, `carried` whose text these are.
    """

    length: int
    prefill: Prefill = Prefill.QUEUED
    decode: Decode = Decode.QUEUED
    pages: tuple[int, ...] = ()
    holds: bool = False
    wired: int = 0
    carried: int = NOBODY

    @property
    def has_prefill_ended(self) -> bool:
        """Tell whether prefill will write nothing more for this request."""
        return self.prefill in _PREFILL_OVER and not self.wired


_PREFILL_OVER = frozenset({Prefill.SENT, Prefill.REFUSED, Prefill.STOPPED})


class State(NamedTuple):
    """All requests in the order in which decode got them, the pages, and the free list."""

    runs: tuple[Run, ...]
    contents: tuple[Content, ...]
    free: tuple[int, ...]

    def with_run(self, number: int, run: Run) -> State:
        """Answer the state in which one request stands elsewhere."""
        if run.has_prefill_ended and not run.holds and run.decode is not Decode.COPYING:
            run = run._replace(pages=())
        runs = (*self.runs[:number], run, *self.runs[number + 1 :])
        return State(runs, self.contents, self.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The bounds of an exploration. Unit: pages.

    A node refuses what is longer than its `..._longest`. `reserve` pages are kept free beside each
    request on decode. `lengths` are what requests ask; `requests` how many come, of tenant B and A
    in turn.
    """

    decode_pages: int
    prefill_longest: int
    decode_longest: int
    lengths: tuple[int, ...]
    requests: int
    reserve: int = 1
    has_aborts: bool = True
    has_tier: bool = False

    def prefill_refuses(self, length: int) -> bool:
        """Tell whether prefill refuses a request of this length."""
        return length > self.prefill_longest

    def decode_refuses(self, length: int) -> bool:
        """Tell whether decode refuses a request of this length."""
        return length > self.decode_longest

    def reserved(self, length: int) -> int:
        """Answer how many pages decode reserves: a refused prompt is a stub of one."""
        return 1 if self.decode_refuses(length) else length

    def computed(self, length: int) -> int:
        """Answer how many pages prefill computes: a refused prompt is a stub of one."""
        return 1 if self.prefill_refuses(length) else length

    def starts(self) -> Iterator[State]:
        """Answer every start: each choice of lengths, over used pages and over new ones."""
        free = tuple(range(self.decode_pages))
        for lengths in product(self.lengths, repeat=self.requests):
            runs = tuple(Run(length=length) for length in lengths)
            for writer in (EARLIER, NOBODY):
                contents = (Content(writer),) * self.decode_pages
                yield State(runs=runs, contents=contents, free=free)


INCIDENT = Setup(
    decode_pages=10,
    prefill_longest=4,
    decode_longest=10,
    lengths=(8,),
    requests=1,
    has_aborts=False,
)
"""The incident's example: a prompt of 8 pages that prefill refuses and decode admits."""

UNEQUAL = Setup(decode_pages=5, prefill_longest=2, decode_longest=5, lengths=(1, 3, 5), requests=2)
"""Limits that differ: 1 page fits both, 3 pages are prefill's refusal, 5 can never be reserved."""

EQUAL = Setup(decode_pages=5, prefill_longest=5, decode_longest=5, lengths=(1, 3, 5, 6), requests=2)
"""Limits that agree: 6 pages are refused by both, 5 are admitted and can never be reserved."""
