"""A paged KV pool with real contents: nobody wipes a page when it changes hands."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from drill.lagging import Backlog

UNWRITTEN = -1


class PagePool:
    """Token ids by slot, the request that wrote each last, and the list of free pages.

    Pages are numbered from 1 as in SGLang, where page 0 takes the writes of padding.
    Source: SGLang mem_cache/allocator, need_sort: freed pages wait apart and are merged in page
    order only when the free list runs short, so that allocations walk round the pool.
    """

    def __init__(self, *, capacity: int, page_size: int) -> None:
        self.capacity = capacity
        self.page_size = page_size
        self.page_count = capacity // page_size
        slot_count = (self.page_count + 1) * page_size
        self._tokens = array("i", [UNWRITTEN]) * slot_count
        self._writers = array("q", [UNWRITTEN]) * slot_count
        self._free: list[int] = []
        self._released: list[int] = []
        self.cached_pages = 0
        self.backlog = Backlog(page_size)
        self.forget_owners()

    @property
    def available(self) -> int:
        """Answer the free tokens."""
        return (len(self._free) + len(self._released)) * self.page_size

    @property
    def used(self) -> int:
        """Answer the tokens in pages that a request holds; what a cache can let go of is none."""
        return self.capacity - self.available - self.cached_pages * self.page_size

    def pages_for(self, length: int) -> int:
        """Answer how many pages so many tokens need."""
        return -(-length // self.page_size)

    def take(self, count: int) -> list[int] | None:
        """Answer so many pages, contents as they are, or None when the pool is short."""
        if count > len(self._free):
            self._free = sorted(self._free + self._released)
            self._released = []
        if count > len(self._free):
            return None
        taken = self._free[:count]
        del self._free[:count]
        return taken

    def give_back(self, pages: Iterable[int]) -> None:
        """Free pages; what they hold stays."""
        self._released.extend(pages)

    def forget_owners(self) -> None:
        """Free every page at once, as a cache flush does; what they hold stays."""
        self._free = list(range(1, self.page_count + 1))
        self._released = []

    def slot(self, pages: Sequence[int], position: int) -> int:
        """Answer the slot of a position in a row of pages."""
        return pages[position // self.page_size] * self.page_size + position % self.page_size

    def slots(self, pages: Sequence[int], length: int) -> list[int]:
        """Answer the slots of the first positions in a row of pages."""
        size = self.page_size
        rows = [slot for page in pages for slot in range(page * size, (page + 1) * size)]
        return rows[:length]

    def write(self, slots: Sequence[int], tokens: Iterable[int], writer: int) -> None:
        """Write tokens into slots, one each, until either side ends."""
        for slot, token in zip(slots, tokens, strict=False):
            self._tokens[slot] = token
            self._writers[slot] = writer
        self.backlog.written(slots, writer)

    def copy_in(
        self, slots: Sequence[int], tokens: Sequence[int], writers: Sequence[int], *, by: int
    ) -> None:
        """Write for one request what others wrote first; the slots keep who it was."""
        for slot, token, writer in zip(slots, tokens, writers, strict=False):
            self._tokens[slot] = token
            self._writers[slot] = writer
        self.backlog.written(slots, by)

    def tokens_at(self, slots: Iterable[int]) -> list[int]:
        """Answer what slots hold; UNWRITTEN where nothing ever was."""
        tokens = self._tokens
        return [tokens[slot] for slot in slots]

    def writers_of(self, slots: Iterable[int]) -> list[int]:
        """Answer which request wrote each slot last; UNWRITTEN where none did."""
        writers = self._writers
        return [writers[slot] for slot in slots]
