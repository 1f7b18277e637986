"""Queues acts at routers for people, and does them in a worker: claim, act, say what came of it."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from common.clock import now
from common.heartbeat import Heartbeat
from common.leases import owner_name
from common.registry import UnknownKey
from common.roles import Role, require_role
from common.trail import record
from fleet.contract import FleetError
from fleet.endpoint import workers_at
from fleet.models import Deployment, Node
from fleet.selectors import out_of_rotation
from fleet.taking_out import rotation_leave, rotation_list
from probes.job_rows import LIVE_JOBS, JobKind, JobState, RouterJob
from probes.joining import JoinRefused, join_check, join_withdraw, node_join

log = logging.getLogger(__name__)

#: What a job may take before it is given up.
JOB_LASTS = timedelta(minutes=10)
#: How long a router may carry out an order late, and how often it is looked at meanwhile.
WATCH_LASTS = timedelta(hours=1)
LOOK_EVERY = timedelta(seconds=10)
#: A worker that dies on a job time after time is not helped by another.
MAX_ATTEMPTS = 3
_OURS = "Pagewarden itself failed at this; the worker's log has the details"


class JobRefused(Exception):
    """The job cannot be queued; the text says why and what can be done."""


def join_request(*, person: User, node: Node) -> RouterJob:
    """Queue a node's join for the workers; the caller wakes one after its commit.

    Raises NotAllowed, JoinRefused, JobRefused.
    """
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="let a node into its router")
    join_check(node)
    return _queue(
        RouterJob(deployment=node.deployment, node=node, kind=JobKind.JOIN),
        person,
        subject=f"{node.deployment.name}/{node.name}",
    )


def take_out_request(*, person: User, deployment: Deployment) -> RouterJob:
    """Queue that what must stay out is taken out again. Raises NotAllowed, JobRefused."""
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="take workers out of a router")
    if not out_of_rotation(deployment):
        raise JobRefused(f"nothing of {deployment} was taken out that could be out again")
    job = RouterJob(deployment=deployment, kind=JobKind.TAKE_OUT)
    return _queue(job, person, subject=deployment.name)


def _queue(job: RouterJob, person: User, *, subject: str) -> RouterJob:
    job.requested_by = person.get_username()
    job.deadline_at = now() + JOB_LASTS
    job.progress = "waiting for a worker"
    try:
        with transaction.atomic():
            job.save()
            record(actor=job.requested_by, action=f"{job.kind}_requested", subject=subject)
    except IntegrityError:
        raise JobRefused(
            f"something is being done at the router of {job.deployment} already: wait for it"
        ) from None
    return job


def jobs_to_wake() -> list[int]:
    """Answer the jobs that nobody holds."""
    return list(RouterJob.objects.free().filter(state__in=LIVE_JOBS).values_list("pk", flat=True))


def job_latest(deployment: Deployment) -> RouterJob | None:
    """Answer the newest job at a deployment's router."""
    return deployment.router_jobs.select_related("node", "deployment").first()


def job_conduct(*, job_pk: int) -> bool:
    """Claim a job and bring it to its end; answers False where another worker holds it."""
    owner = owner_name()
    if not RouterJob.objects.filter(state__in=LIVE_JOBS).claim(job_pk, owner=owner):
        return False
    try:
        with Heartbeat(RouterJob.objects.all(), job_pk, owner=owner):
            _conduct(
                RouterJob.objects.select_related("deployment", "node__deployment").get(pk=job_pk)
            )
    finally:
        RouterJob.objects.all().release(job_pk, owner=owner)
    return True


def _conduct(job: RouterJob) -> None:
    if job.entering_at is not None and not _withdrawn(job):
        return
    if job.deadline_at is not None and job.deadline_at < now():
        _end(job, JobState.REFUSED, "not finished in time; nothing was let in")
        return
    if job.attempts > MAX_ATTEMPTS:
        _end(job, JobState.REFUSED, f"{MAX_ATTEMPTS} workers died at this; nothing was let in")
        return
    job.state = JobState.RUNNING
    job.started_at = job.started_at or now()
    job.save(update_fields=["state", "started_at"])
    try:
        _end(job, JobState.DONE, _act(job))
    except JoinRefused as reason:
        # Whoever refuses after the node had entered has taken it out again.
        _end(job, JobState.REFUSED, str(reason))
    except (FleetError, UnknownKey) as reason:
        _give_up(job, str(reason))
    except Exception:
        log.exception("router job %s raised", job.pk)
        _give_up(job, _OURS)


def _give_up(job: RouterJob, text: str) -> None:
    """End a job that broke off; one whose node may be in stays until it is out again."""
    if job.entering_at is None or _withdrawn(job):
        _end(job, JobState.REFUSED, text)


def _act(job: RouterJob) -> str:
    """Do what is asked and answer what came of it. Raises JoinRefused, FleetError, UnknownKey."""
    if job.node is None:
        workers = rotation_leave(deployment=job.deployment, actor=job.requested_by)
        return f"{len(workers)} workers of {job.deployment} are out, confirmed by the router"
    node_join(actor=job.requested_by, node=job.node, witness=_Progress(job))
    return f"{job.node} is in the router: every required gate passed on fresh readings"


def _withdrawn(job: RouterJob) -> bool:
    """Answer whether the node of a broken join is out of the router; else the tick comes again."""
    if job.node is None:
        return True
    try:
        join_withdraw(job.node)
    except (FleetError, UnknownKey) as fault:
        text = f"its join was broken off, and taking {job.node} out again fails: {fault}"
        job.progress = text[:300]
        job.save(update_fields=["progress"])
        return False
    job.entering_at = None
    job.save(update_fields=["entering_at"])
    return True


class _Progress:
    """Shows on the row how far a join is."""

    def __init__(self, job: RouterJob) -> None:
        self._job = job

    def reports(self, text: str) -> None:
        """Show in one line what is done now."""
        self._job.progress = text[:300]
        self._job.save(update_fields=["progress"])

    def enters(self) -> None:
        """Commit that the router is told next."""
        self._job.entering_at = now()
        self._job.watched_until = self._job.entering_at + WATCH_LASTS
        self._job.save(update_fields=["entering_at", "watched_until"])


def _end(job: RouterJob, state: JobState, text: str) -> None:
    is_in = state is JobState.DONE
    RouterJob.objects.filter(pk=job.pk, state__in=LIVE_JOBS).update(
        state=state,
        outcome=text,
        progress="",
        entering_at=None,
        ended_at=now(),
        watched_until=None if is_in else job.watched_until,
    )


def _late() -> QuerySet[RouterJob]:
    """Answer refused joins whose order may still be carried out, unless they were just looked at.

    One that was asked for again is the newer job's matter.
    """
    moment = now()
    newer = RouterJob.objects.filter(node=OuterRef("node"), pk__gt=OuterRef("pk"))
    due = Q(looked_at=None) | Q(looked_at__lt=moment - LOOK_EVERY)
    return RouterJob.objects.filter(
        due, ~Exists(newer), state=JobState.REFUSED, watched_until__gt=moment
    )


def late_joins_to_look_at() -> list[int]:
    """Answer refused joins whose router is to be looked at, by key."""
    free = RouterJob.objects.free().values("pk")
    return list(_late().filter(pk__in=free).values_list("pk", flat=True))


def late_join_check(*, job_pk: int) -> None:
    """Take a node out that entered after its join was refused, once; say so on the job.

    Once only: whoever puts it in again after that means it, and the page shows that it is listed.
    """
    owner = owner_name()
    if not RouterJob.objects.filter(pk__in=_late().values("pk")).claim(job_pk, owner=owner):
        return
    try:
        job = RouterJob.objects.select_related("deployment", "node__deployment").get(pk=job_pk)
        _look_for(job)
    finally:
        RouterJob.objects.all().release(job_pk, owner=owner)


def _look_for(job: RouterJob) -> None:
    job.looked_at = now()
    job.save(update_fields=["looked_at"])
    if job.node is None:
        return
    try:
        if not workers_at(rotation_list(deployment=job.deployment), job.node.url):
            return
        join_withdraw(job.node)
    except (FleetError, UnknownKey):
        # Nothing is known of it then, so the next look comes again.
        return
    job.outcome += (
        f". It entered all the same and was taken out again at {now():%H:%M:%S} UTC: the router "
        "had kept the order"
    )
    job.watched_until = None
    job.save(update_fields=["outcome", "watched_until"])
    record(actor="router watch", action="late_join_withdrawn", subject=str(job.node))
