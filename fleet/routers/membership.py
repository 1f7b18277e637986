"""Takes a worker out of a router and puts it back, each confirmed by the router's own list."""

from __future__ import annotations

from typing import Protocol

from fleet.address import show_url
from fleet.contract import RouterAccess
from fleet.endpoint import workers_at
from fleet.reading import Worker
from fleet.routers.asking import Wait, refuse_lookalikes


class Surface(Protocol):
    """The four calls in which kinds of router differ; each raises RouterError.

    ``late_note`` says what an order may still do after nobody waits for it any more.
    """

    late_note: str

    async def listed(self, router: RouterAccess) -> tuple[Worker, ...]:
        """Answer every worker of the list; a list that is odd in any way is an error."""
        ...

    async def drop(self, router: RouterAccess, worker: Worker) -> None:
        """Order one listed worker out."""
        ...

    async def take(self, router: RouterAccess, worker: Worker) -> None:
        """Order a worker in; no harm where it is there already."""
        ...

    async def has_forgotten(self, router: RouterAccess, worker: Worker) -> bool:
        """Answer whether the router knows a worker by its own address no more."""
        ...


async def remove_and_confirm(surface: Surface, router: RouterAccess, worker: Worker) -> None:
    """Drop a worker and return when nothing is listed or known there. Raises RouterError.

    A worker that is not listed is gone already.
    """
    wait = Wait(router)
    dropped: dict[str, Worker] = {}
    while True:
        listed = await surface.listed(router)
        there = workers_at(listed, worker.url)
        if not there and await _are_forgotten(surface, router, dropped):
            refuse_lookalikes(router, listed, worker)
            return
        for one in there:
            if one.worker_id not in dropped:
                await surface.drop(router, one)
                dropped[one.worker_id] = one
        await wait.pause(f"still knows {show_url(worker.url)}")


async def add_and_confirm(surface: Surface, router: RouterAccess, worker: Worker) -> None:
    """Take a worker and return when it is listed, healthy and of its role. Raises RouterError.

    The order is repeated while the worker is not listed: its predecessor may still drain.
    """
    wait = Wait(router)
    late_note = ""
    while True:
        listed = await surface.listed(router)
        there = workers_at(listed, worker.url)
        if any(_is_in_service(one, worker) for one in there):
            return
        if not there:
            refuse_lookalikes(router, listed, worker)
            await surface.take(router, worker)
            late_note = surface.late_note
        state = "; ".join(filter(None, (_state_of(there), late_note)))
        await wait.pause(f"does not serve {show_url(worker.url)} yet ({state})")


async def _are_forgotten(
    surface: Surface, router: RouterAccess, dropped: dict[str, Worker]
) -> bool:
    for one in dropped.values():
        if not await surface.has_forgotten(router, one):
            return False
    return True


def _is_in_service(listed: Worker, wanted: Worker) -> bool:
    if not listed.is_healthy or listed.role is None:
        return False
    return wanted.role is None or listed.role is wanted.role


def _state_of(there: tuple[Worker, ...]) -> str:
    if not there:
        return "it is not listed"
    return "; ".join(
        f"listed as {one.role or 'unknown'}, "
        f"{one.status or ('healthy' if one.is_healthy else 'not healthy')}"
        for one in there
    )
