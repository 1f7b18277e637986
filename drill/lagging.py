"""Reads and writes of pages that were promised and are still to be done: transfers, copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(eq=False, slots=True, kw_only=True)
class Lagging:
    """One read or write of pages that is under way; `owner` is the request it works for."""

    pages: frozenset[int]
    owner: int
    due_at: float
    act: Callable[[], None]
    is_write: bool = False
    is_done: bool = False

    def finish(self) -> None:
        """Do it now unless it has been done."""
        if not self.is_done:
            self.is_done = True
            self.act()


class Backlog:
    """What still lags on one pool.

    Nothing here holds a page back. What lags is done when it is due, or right after another request
    has written one of its pages: the worst moment that the schedule allows.
    """

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._lagging: list[Lagging] = []
        self._touched: set[int] = set()

    def __len__(self) -> int:
        return len(self._lagging)

    def add(self, lagging: Lagging) -> Lagging:
        """Promise a read or a write."""
        self._lagging.append(lagging)
        return lagging

    def written(self, slots: Sequence[int], writer: int) -> None:
        """Say that a request has written slots; what lags on their pages for others is done."""
        if not self._lagging:
            return
        pages = {slot // self._page_size for slot in slots}
        for one in list(self._lagging):
            if one.owner != writer and not one.is_done and not pages.isdisjoint(one.pages):
                self._finish(one)

    def finish_on(self, pages: Iterable[int]) -> None:
        """Do at once what lags on pages that are about to be freed."""
        wanted = set(pages)
        for one in list(self._lagging):
            if not wanted.isdisjoint(one.pages):
                self._finish(one)

    def take_touched(self) -> set[int]:
        """Answer the pages that a late write has reached since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def run_due(self, now: float) -> bool:
        """Do what is due; tell whether anything was."""
        due = [one for one in self._lagging if one.is_done or one.due_at <= now]
        for one in due:
            self._finish(one)
        return bool(due)

    @property
    def next_due(self) -> float | None:
        """Answer when the next one is due."""
        return min((one.due_at for one in self._lagging), default=None)

    def _finish(self, one: Lagging) -> None:
        if one in self._lagging:
            self._lagging.remove(one)
        if one.is_write and not one.is_done:
            self._touched |= one.pages
        one.finish()
