"""The loop that moves every engine of a cluster, one step at a time, and rests when all do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from drill.engine import Engine


class Runtime:
    """Steps the engines while anything moves; sleeps until woken or until a deadline."""

    def __init__(self, engines: Callable[[], Iterable[Engine]], *, token_s: float = 0.0) -> None:
        self._engines = engines
        self._token_s = token_s
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Say that there may be something to do."""
        self._woken.set()

    async def run(self) -> None:
        """Run for ever; cancel to stop."""
        while True:
            self._woken.clear()
            while self._step():  # noqa: ASYNC110 this is the time between two tokens
                await asyncio.sleep(self._token_s)
            await self._rest()

    def _step(self) -> int:
        return sum(engine.step() for engine in self._engines())

    async def _rest(self) -> None:
        deadlines = [engine.next_deadline() for engine in self._engines()]
        nearest = min((at for at in deadlines if at is not None), default=None)
        rest_s = None if nearest is None else max(0.0, nearest - time.monotonic())
        try:
            await asyncio.wait_for(self._woken.wait(), rest_s)
        except TimeoutError:
            return
