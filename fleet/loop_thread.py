"""An event loop in a thread of its own, for a caller that waits for the database in between.

While the caller stores, the loop goes on: an answer that comes meanwhile is not late.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class LoopThread:
    """Context manager; ``run`` gives the loop something to do and waits for what comes of it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn, name="asking", daemon=True)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Answer the result of the work. Raises what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
