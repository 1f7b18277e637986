"""Carries news of running rounds from their event loop to the thread that writes the database."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from probes.canary.contract import Observer
from probes.canary.rounds import Progress, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A finished row with its answer, which may be leaked data."""

    row: Row
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundBegan:
    """The next round begins: all rows that follow are its own."""

    plan: str
    target: str


News = Progress | Answered | RoundBegan
T = TypeVar("T")


class Feed(Observer):
    """An observer that hands everything on, in order, to one reader in another thread."""

    def __init__(self) -> None:
        self._news: queue.SimpleQueue[News | None] = queue.SimpleQueue()
        self._stop = threading.Event()

    def stop(self) -> None:
        """Pull the kill switch: nothing more is sent."""
        self._stop.set()

    def begin(self, *, plan: str, target: str) -> None:
        """Hand on that a round begins."""
        self._news.put(RoundBegan(plan=plan, target=target))

    async def is_stopped(self) -> bool:
        """Answer whether the kill switch was pulled."""
        return self._stop.is_set()

    async def progressed(self, progress: Progress) -> None:
        """Hand progress on."""
        self._news.put(progress)

    async def answered(self, row: Row, text: str) -> None:
        """Hand a row on."""
        self._news.put(Answered(row=row, text=text))

    def end(self) -> None:
        """Tell the reader that nothing more comes."""
        self._news.put(None)

    def read(self) -> Iterator[News]:
        """Answer the news as they come, until the end."""
        while (news := self._news.get()) is not None:
            yield news


def follow(work: Callable[[Feed], Awaitable[T]], hear: Callable[[Feed, News], None]) -> T:
    """Run async work in an event loop of its own while this thread hears its news.

    Database connections stay with the calling thread. Raises what the work or the hearing raises.
    """
    feed = Feed()

    async def run() -> T:
        try:
            return await work(feed)
        finally:
            feed.end()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="rounds") as loop:
        running = loop.submit(lambda: asyncio.run(run()))
        try:
            for news in feed.read():
                hear(feed, news)
        except BaseException:
            feed.stop()
            raise
        return running.result()
