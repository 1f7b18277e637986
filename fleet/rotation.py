"""In and out of a router, and whether a node is drained; asks the world, stores nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from fleet.access import DeploymentAccess
from fleet.address import show_url
from fleet.breakers import breakers_of
from fleet.contract import ROUTERS, Outbound, RouterAccess, RouterAdapter, RouterError
from fleet.endpoint import place_of
from fleet.reading import Reading, Role, Worker
from fleet.routers.readiness import readiness_of
from fleet.routers.recognise import recognise

#: Workers that are ordered in or out at the same time.
_ORDERS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Whether nodes have nothing in hand any more; ``text`` says what each still holds."""

    is_over: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakers:
    """The circuit breakers of a router by the place of their worker: closed, half open or open.

    ``problem`` says why none is known; then nothing may be taken for closed.
    """

    states: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    def state_at(self, url: str) -> str:
        """Answer the state of the worker at an address; empty where it is not shown."""
        return self.states.get(place_of(url), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterStanding:
    """What a router is, its own word on whether it would serve, and what it lists.

    ``notes`` say what putting listed workers back would take beyond an order. ``breakers`` is None
    where nobody named the address of its metrics.
    """

    kind: str
    readiness: str
    workers: tuple[Worker, ...]
    notes: tuple[str, ...] = ()
    breakers: Breakers | None = None


def router_access(access: DeploymentAccess, client: Outbound) -> RouterAccess:
    """Answer the way to a deployment's router. Raises RouterError where it has none."""
    if not access.router_url:
        raise RouterError(f"{access.name} has no router: add its address on the deployment")
    return RouterAccess(
        url=access.router_url, client=client, key=access.router_key, worker_key=access.node_key
    )


async def router_kind(access: DeploymentAccess, client: Outbound) -> str:
    """Answer the kind of a deployment's router, by its answers where nobody named it.

    Raises RouterError.
    """
    router = router_access(access, client)
    return access.router_kind or await recognise(client, router.url, router.key)


async def router_adapter(access: DeploymentAccess, client: Outbound) -> RouterAdapter:
    """Answer the adapter of a deployment's router. Raises RouterError, UnknownKey."""
    return ROUTERS.get(await router_kind(access, client))


async def workers_listed(access: DeploymentAccess, client: Outbound) -> tuple[Worker, ...]:
    """Answer what the router lists. Raises RouterError, UnknownKey."""
    adapter = await router_adapter(access, client)
    return await adapter.list_workers(router_access(access, client))


async def workers_remove(
    access: DeploymentAccess, client: Outbound, workers: Iterable[Worker]
) -> None:
    """Take workers out and return when the router lists none of them. Raises RouterError."""
    adapter, router = await router_adapter(access, client), router_access(access, client)
    await _each(workers, lambda worker: adapter.remove_worker(router, worker))


async def workers_add(
    access: DeploymentAccess, client: Outbound, workers: Iterable[Worker]
) -> None:
    """Put workers in and return when the router lists them healthy. Raises RouterError."""
    adapter, router = await router_adapter(access, client), router_access(access, client)
    await _each(workers, lambda worker: adapter.add_worker(router, worker))


async def _each(workers: Iterable[Worker], order: Callable[[Worker], Awaitable[None]]) -> None:
    """Order every worker, several at a time; one that fails holds none of the others back.

    One after the other would leave the last of many in rotation for minutes: smg drains for 5 s.
    Raises RouterError with what failed.
    """
    places = asyncio.Semaphore(_ORDERS_AT_ONCE)

    async def one(worker: Worker) -> None:
        async with places:
            await order(worker)

    ends = await asyncio.gather(*map(one, workers), return_exceptions=True)
    if strange := next((end for end in ends if end and not isinstance(end, RouterError)), None):
        raise strange
    if refusals := dict.fromkeys(str(end) for end in ends if end):
        raise RouterError("; ".join(refusals))


async def router_standing(access: DeploymentAccess, client: Outbound) -> RouterStanding:
    """Answer what a router is and lists, and what taking it all out would cost. Raises RouterError.

    Its notes are to be told before anything is taken out.
    """
    kind, router = await router_kind(access, client), router_access(access, client)
    adapter = ROUTERS.get(kind)
    workers = await adapter.list_workers(router)
    try:
        readiness = (await readiness_of(router)).text
    except RouterError as fault:
        readiness = str(fault)
    return RouterStanding(
        kind=kind,
        readiness=readiness,
        workers=workers,
        notes=tuple(note for worker in workers if (note := adapter.restore_note(worker))),
        breakers=await _breakers(access, client),
    )


async def _breakers(access: DeploymentAccess, client: Outbound) -> Breakers | None:
    if not access.router_metrics_url:
        return None
    try:
        states = await breakers_of(client, access.router_metrics_url)
    except RouterError as fault:
        return Breakers(problem=str(fault))
    shown = show_url(access.router_metrics_url)
    return Breakers(states=states, problem="" if states else f"{shown} shows no circuit breaker")


def drain_of(readings: tuple[Reading, ...]) -> Drain:
    """Judge from fresh readings whether every node is drained.

    No answer, or a missing queue figure, is not drained (design, "Where something is unknown").
    """
    busy = [words for reading in readings if (words := _in_hand(reading))]
    if not readings:
        return Drain(is_over=False, text="no node was read")
    if busy:
        return Drain(is_over=False, text="; ".join(busy))
    return Drain(is_over=True, text=f"all queues of {len(readings)} nodes are empty")


def _in_hand(reading: Reading) -> str:
    if reading.problem:
        return f"{reading.node}: {reading.problem}"
    if reading.load is None:
        return f"{reading.node} does not show its queues"
    if reading.load.is_idle:
        return ""
    figures = {"running": reading.load.running, "waiting": reading.load.waiting}
    figures |= dict(reading.load.queues)
    held = [f"{name} {'unknown' if n is None else n}" for name, n in figures.items() if n != 0]
    return f"{reading.node} still holds {', '.join(held) or 'unknown queues'}"


def worker_document(worker: Worker) -> dict[str, Any]:
    """Answer all that is needed to add a worker back, as JSON."""
    return {**asdict(worker), "role": str(worker.role) if worker.role else None}


def worker_from(document: dict[str, Any]) -> Worker:
    """Answer the worker that a document was made from."""
    role = document["role"]
    return Worker(**{**document, "role": Role(role) if role else None})
