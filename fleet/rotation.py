"""In and out of a router, and whether a node is drained; asks the world, stores nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fleet.access import DeploymentAccess
from fleet.contract import ROUTERS, Outbound, RouterAccess, RouterError
from fleet.reading import Reading, Role, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Whether nodes have nothing in hand any more; ``text`` says what each still holds."""

    is_over: bool
    text: str


def router_access(access: DeploymentAccess, client: Outbound) -> RouterAccess:
    """Answer the way to a deployment's router. Raises RouterError where it has none."""
    if not access.router_url:
        raise RouterError(f"{access.name} has no router: add its address on the deployment")
    return RouterAccess(
        url=access.router_url, client=client, key=access.router_key, worker_key=access.node_key
    )


async def workers_listed(access: DeploymentAccess, client: Outbound) -> tuple[Worker, ...]:
    """Answer what the router lists. Raises RouterError, UnknownKey."""
    adapter = ROUTERS.get(access.router_kind)
    return await adapter.list_workers(router_access(access, client))


async def worker_remove(access: DeploymentAccess, client: Outbound, worker: Worker) -> None:
    """Take one worker out and return when the router lists it no longer. Raises RouterError."""
    await ROUTERS.get(access.router_kind).remove_worker(router_access(access, client), worker)


async def worker_add(access: DeploymentAccess, client: Outbound, worker: Worker) -> None:
    """Put one worker back and return when the router lists it healthy. Raises RouterError."""
    await ROUTERS.get(access.router_kind).add_worker(router_access(access, client), worker)


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
