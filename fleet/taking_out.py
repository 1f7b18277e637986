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
    router_kind,
    router_standing,
    worker_document,
    worker_from,
    workers_add,
    workers_listed,
    workers_remove,
)
from fleet.rotation_rows import RotationChange, RotationWatch
from fleet.selectors import deployment_access, nodes_current, out_of_rotation, outbound_client
from fleet.services import look_at
from fleet.staying_out import NewsKind


def rotation_leave(*, deployment: Deployment, actor: str) -> tuple[Worker, ...]:
    """Take every worker of a deployment out of its router; safe to repeat.

    Answers the workers that are out by now. Every one is written down before it is removed, so
    that a killed worker process leaves nothing that could not be put back. Raises RouterError.
    """
    access = deployment_access(deployment)
    listed = asyncio.run(_list(access))
    _intend(deployment, listed, actor)
    still_listed = asyncio.run(_remove(access, listed))
    _confirm_gone(deployment, {worker.url for worker in still_listed}, actor)
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
    rotation_keep_out(deployment=deployment)


@transaction.atomic
def _confirm_gone(deployment: Deployment, still_listed: set[str], actor: str) -> None:
    moment = now()
    deployment.taken_out.filter(put_back_at=None, confirmed_at=None).exclude(
        url__in=still_listed
    ).update(confirmed_at=moment)
    watch = RotationWatch.objects.select_for_update().filter(deployment=deployment).first()
    if watch is None or still_listed:
        return
    said = f"by {actor}, and the router of {deployment} lists no worker"
    if watch.is_problem_told:
        _tell(watch, NewsKind.READABLE, f"Read again {said}")
    if watch.listed:
        _tell(watch, NewsKind.GONE_AGAIN, f"{', '.join(watch.listed)} out again {said}")
    _watch_anew(deployment)


def _tell(watch: RotationWatch, kind: NewsKind, text: str) -> None:
    moment = now()
    RotationChange.objects.create(
        deployment=watch.deployment,
        at=moment,
        since_at=moment,
        kind=kind,
        urls=watch.listed,
        text=text,
    )


def _watch_anew(deployment: Deployment) -> None:
    """Forget what looks found before Pagewarden itself changed the list, confirmed by it."""
    RotationWatch.objects.filter(deployment=deployment).update(
        acted_at=now(),
        listed=[],
        listed_since_at=None,
        gone_since_at=None,
        problem="",
        problem_since_at=None,
        is_problem_told=False,
    )


def rotation_return(*, deployment: Deployment, taken_out_by: str = "") -> tuple[Worker, ...]:
    """Put back every worker that Pagewarden took out, or only what one actor did; safe to repeat.

    Answers the workers that are listed and healthy again. Raises RouterError.
    """
    rows = [row for row in out_of_rotation(deployment) if taken_out_by in {"", row.taken_out_by}]
    workers = tuple(worker_from(row.worker) for row in rows)
    if not workers:
        return ()
    mine = OutOfRotation.objects.filter(pk__in=[row.pk for row in rows])
    # Before the act: whoever watches that they stay out must know that they are wanted back.
    mine.update(return_ordered_at=now())
    asyncio.run(_return(deployment_access(deployment), workers))
    with transaction.atomic():
        mine.update(put_back_at=now())
        _watch_anew(deployment)
    return workers


def rotation_keep_out(*, deployment: Deployment) -> None:
    """Call off what is on its way back: from here on it must stay out, and is watched again."""
    deployment.taken_out.filter(put_back_at=None).update(return_ordered_at=None)


async def _return(access: DeploymentAccess, workers: Iterable[Worker]) -> None:
    async with outbound_client() as client:
        await workers_add(access, client, workers)


def return_needs_a_hand(*, deployment: Deployment) -> bool:
    """Answer whether putting back takes more than an order, such as a restart of the router.

    Raises RouterError where nobody named its kind and it cannot be asked.
    """
    adapter = ROUTERS.get(asyncio.run(_kind(deployment_access(deployment))))
    workers = [worker_from(row.worker) for row in out_of_rotation(deployment)]
    return any(adapter.restore_note(worker) for worker in workers)


async def _kind(access: DeploymentAccess) -> str:
    async with outbound_client() as client:
        return await router_kind(access, client)


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
