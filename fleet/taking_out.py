"""Takes workers out of a router and puts them back: intent first, then the act, then the proof."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from django.db import transaction

from common.clock import now
from fleet.access import DeploymentAccess
from fleet.contract import ROUTERS
from fleet.models import Deployment, OutOfRotation
from fleet.reading import Role, Worker
from fleet.rotation import (
    Drain,
    RouterStanding,
    drain_of,
    router_standing,
    worker_document,
    worker_from,
    workers_add,
    workers_listed,
    workers_remove,
)
from fleet.selectors import deployment_access, nodes_current, out_of_rotation, outbound_client
from fleet.services import look_at


def rotation_leave(*, deployment: Deployment, actor: str) -> tuple[Worker, ...]:
    """Take every worker of a deployment out of its router; safe to repeat.

    Answers the workers that are out by now. Every one is written down before it is removed, so
    that a killed worker process leaves nothing that could not be put back. Raises RouterError.
    """
    access = deployment_access(deployment)
    listed = asyncio.run(_list(access))
    _intend(deployment, listed, actor)
    still_listed = asyncio.run(_remove(access, listed))
    _confirm_gone(deployment, {worker.url for worker in still_listed})
    return tuple(worker_from(row.worker) for row in out_of_rotation(deployment))


async def _list(access: DeploymentAccess) -> tuple[Worker, ...]:
    async with outbound_client() as client:
        return await workers_listed(access, client)


async def _remove(access: DeploymentAccess, workers: Iterable[Worker]) -> tuple[Worker, ...]:
    """Remove workers, and answer what the router then still lists."""
    async with outbound_client() as client:
        await workers_remove(access, client, workers)
        return await workers_listed(access, client)


@transaction.atomic
def _intend(deployment: Deployment, workers: Iterable[Worker], actor: str) -> None:
    for worker in workers:
        OutOfRotation.objects.get_or_create(
            deployment=deployment,
            url=worker.url,
            put_back_at=None,
            defaults={"worker": worker_document(worker), "taken_out_by": actor},
        )


def _confirm_gone(deployment: Deployment, still_listed: set[str]) -> None:
    deployment.taken_out.filter(put_back_at=None, confirmed_at=None).exclude(
        url__in=still_listed
    ).update(confirmed_at=now())


def rotation_return(*, deployment: Deployment, taken_out_by: str = "") -> tuple[Worker, ...]:
    """Put back every worker that Pagewarden took out, or only what one actor did; safe to repeat.

    Answers the workers that are listed and healthy again. Raises RouterError.
    """
    rows = [row for row in out_of_rotation(deployment) if taken_out_by in {"", row.taken_out_by}]
    workers = tuple(worker_from(row.worker) for row in rows)
    if not workers:
        return ()
    asyncio.run(_return(deployment_access(deployment), workers))
    OutOfRotation.objects.filter(pk__in=[row.pk for row in rows]).update(put_back_at=now())
    return workers


async def _return(access: DeploymentAccess, workers: Iterable[Worker]) -> None:
    async with outbound_client() as client:
        await workers_add(access, client, workers)


def rotation_look(*, deployment: Deployment) -> RouterStanding:
    """Answer what the router is and lists, and what taking it all out would cost.

    Its notes are to be told before anything is taken out. Raises RouterError.
    """
    return asyncio.run(_look(deployment_access(deployment)))


async def _look(access: DeploymentAccess) -> RouterStanding:
    async with outbound_client() as client:
        return await router_standing(access, client)


def rotation_warnings(*, deployment: Deployment) -> tuple[str, ...]:
    """Answer what putting the nodes back would take beyond an order, as far as is stored.

    Asks nobody: for pages, before a person takes anything out.
    """
    if deployment.router_kind not in ROUTERS:
        return ()
    adapter = ROUTERS.get(deployment.router_kind)
    workers = (
        Worker(worker_id="", url=node.url, role=Role(node.role), is_healthy=True)
        for node in nodes_current(deployment)
    )
    return tuple(note for worker in workers if (note := adapter.restore_note(worker)))


def worker_enter(*, deployment: Deployment, worker: Worker) -> None:
    """Put one worker in that was not taken out by Pagewarden; safe to repeat. Raises RouterError.

    Whoever calls it has proved that it may serve.
    """
    asyncio.run(_return(deployment_access(deployment), [worker]))


def worker_leave(*, deployment: Deployment, worker: Worker) -> None:
    """Take one worker out again and keep no note of it; safe to repeat. Raises RouterError."""
    asyncio.run(_remove(deployment_access(deployment), [worker]))


def rotation_list(*, deployment: Deployment) -> tuple[Worker, ...]:
    """Answer what the router lists now. Raises RouterError."""
    return asyncio.run(_list(deployment_access(deployment)))


def deployment_drain(*, deployment: Deployment) -> Drain:
    """Ask the engines themselves whether they have anything in hand."""
    look = asyncio.run(look_at(deployment_access(deployment)))
    return drain_of(look.readings)
