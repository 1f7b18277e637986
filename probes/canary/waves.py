"""Requests that are under way together, and clients that leave in the midst of others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

from fleet.contract import Completion
from probes.canary.departing import Left
from probes.canary.rounds import Outcome, Row, Sending

#: More at once than this load an engine and show nothing new. Source: public reports see answers
#: mixed up at 12 to 32.
AT_ONCE: Final = 32
IN_ROTATION: Final = (
    "several requests at once are sent only out of rotation (--via pair) or when a named person "
    "accepts it (--accept-exposure REASON --as NAME); not sent"
)
T = TypeVar("T")


def steps_of(sendings: Sequence[Sending]) -> Iterator[tuple[Sending, ...]]:
    """Answer what is sent together: neighbours of one wave, each other sending by itself."""
    numbered = enumerate(sendings)
    for _, group in groupby(numbered, key=lambda one: (one[1].wave, 0 if one[1].wave else one[0])):
        yield tuple(sending for _, sending in group)


async def together(jobs: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Answer what all jobs answer, in their order; so many at once as ``AT_ONCE`` allows."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(job: Awaitable[T]) -> T:
        async with gate:
            return await job

    return list(await asyncio.gather(*map(one, jobs)))


def leaves_after(sending: Sending, rows: Sequence[Row]) -> float | None:
    """Answer when the client of a request in a wave leaves. Unit: seconds, None: not known."""
    known = [
        row for row in rows if row.outcome is Outcome.ANSWERED and row.length == sending.length
    ]
    same = [row for row in known if sending.script and row.script == sending.script]
    like = same or known
    return like[-1].seconds * sending.leave_share if like else None


async def leave(asking: Coroutine[Any, Any, Completion], after_s: float) -> Completion | Left:
    """Answer what came before the client left; its connection is closed when this goes on."""
    started = time.monotonic()
    task = asyncio.ensure_future(asking)
    try:
        await asyncio.wait({task}, timeout=after_s)
        seconds = time.monotonic() - started
        return task.result() if task.done() else Left(seconds=seconds)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
