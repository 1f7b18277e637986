"""Acts at a router: queued by a person, done by a worker, never left half-done by a killed one."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User

from common.clock import now
from common.leases import LEASE_LASTS
from common.models import AuditTrail
from common.roles import NotAllowed
from fleet.contract import RouterError
from fleet.models import Deployment, Node
from fleet.reading import Worker
from fleet.taking_out import rotation_leave, rotation_list, worker_enter, worker_leave
from probes import joining, router_jobs
from probes.job_rows import JobState, RouterJob
from probes.joining import JoinRefused
from probes.router_jobs import (
    JOB_LASTS,
    LOOK_EVERY,
    MAX_ATTEMPTS,
    JobRefused,
    job_conduct,
    jobs_to_wake,
    join_request,
    late_join_check,
    late_joins_to_look_at,
    take_out_request,
)
from tests.deployments import Register

pytestmark = pytest.mark.django_db


def out_of(deployment: Deployment, name: str) -> Node:
    """Take a node out as somebody else would: Pagewarden keeps no note of it."""
    node = deployment.nodes.get(name=name)
    (worker,) = [one for one in rotation_list(deployment=deployment) if one.url == node.url]
    worker_leave(deployment=deployment, worker=worker)
    return node


@pytest.fixture
def node(register: Register) -> Node:
    deployment, _ = register("--scenario", "healthy")
    return out_of(deployment, "prefill-1")


def listed(node: Node) -> set[str]:
    return {one.url for one in rotation_list(deployment=node.deployment)}


def tick() -> None:
    for key in jobs_to_wake():
        job_conduct(job_pk=key)


def test_asking_touches_no_router_and_a_worker_does_it(node: Node, responder: User) -> None:
    job = join_request(person=responder, node=node)
    assert (job.state, node.url in listed(node)) == (JobState.QUEUED, False)
    tick()
    job.refresh_from_db()
    assert (job.state, job.entering_at) == (JobState.DONE, None)
    assert "every required gate passed" in job.outcome
    assert node.url in listed(node)
    acts = AuditTrail.objects.filter(subject="drill/prefill-1").order_by("pk")
    assert [one.action for one in acts if one.actor == "rita"] == [
        "join_requested",
        "node_joining",
        "node_joined",
    ]
    assert jobs_to_wake() == []


def test_one_act_at_a_time(node: Node, responder: User) -> None:
    join_request(person=responder, node=node)
    with pytest.raises(JobRefused, match="already"):
        join_request(person=responder, node=node)
    tick()
    Node.objects.filter(pk=node.pk).update(retired_at=now())
    with pytest.raises(JoinRefused, match="retired"):
        join_request(person=responder, node=Node.objects.get(pk=node.pk))


def test_a_refusal_is_the_outcome(node: Node, responder: User) -> None:
    worker_enter(
        deployment=node.deployment,
        worker=joining._worker_of(node),  # noqa: SLF001 - what the router is told
    )
    job = join_request(person=responder, node=node)
    tick()
    job.refresh_from_db()
    assert (job.state, job.outcome) == (JobState.REFUSED, "the router lists prefill-1 already")


def test_a_killed_worker_s_join_is_taken_out_and_made_anew(node: Node, responder: User) -> None:
    job = join_request(person=responder, node=node)
    worker_enter(deployment=node.deployment, worker=joining._worker_of(node))  # noqa: SLF001 - as above
    RouterJob.objects.update(
        state=JobState.RUNNING,
        entering_at=now(),
        lease_owner="dead",
        lease_until=now() + LEASE_LASTS,
    )
    assert not job_conduct(job_pk=job.pk)
    with time_machine.travel(now() + LEASE_LASTS + timedelta(seconds=1), tick=True):
        tick()
    job.refresh_from_db()
    assert (job.state, node.url in listed(node)) == (JobState.DONE, True), job.outcome
    trail = AuditTrail.objects.filter(action="node_joined", subject="drill/prefill-1")
    assert trail.count() == 1, "the node was judged again, not merely found in the list"


@pytest.mark.parametrize("columns", [{"deadline_at": None}, {"attempts": MAX_ATTEMPTS}])
def test_a_join_that_is_given_up_leaves_the_node_out(
    node: Node, responder: User, columns: dict[str, object]
) -> None:
    job = join_request(person=responder, node=node)
    worker_enter(deployment=node.deployment, worker=joining._worker_of(node))  # noqa: SLF001 - as above
    late = {"deadline_at": now() - JOB_LASTS} if "deadline_at" in columns else columns
    RouterJob.objects.update(state=JobState.RUNNING, entering_at=now(), **late)
    tick()
    job.refresh_from_db()
    assert job.state == JobState.REFUSED
    assert "nothing was let in" in job.outcome
    assert node.url not in listed(node)


def test_a_node_that_cannot_be_taken_out_again_keeps_its_job_alive(
    node: Node, responder: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = join_request(person=responder, node=node)

    def cannot(*, deployment: Deployment, worker: Worker) -> None:
        raise RouterError(f"{deployment} does not answer for {worker.url}")

    with monkeypatch.context() as patched:
        patched.setattr(joining, "worker_enter", cannot)
        patched.setattr(joining, "worker_leave", cannot)
        tick()
        tick()
    job.refresh_from_db()
    assert (job.state, job.entering_at is not None) == (JobState.RUNNING, True)
    assert "taking prefill-1 out again fails" in job.progress
    tick()
    job.refresh_from_db()
    assert (job.state, job.entering_at) == (JobState.DONE, None)


def test_a_fault_of_ours_ends_the_job_and_says_so(
    node: Node, responder: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = join_request(person=responder, node=node)
    monkeypatch.setattr(router_jobs, "node_join", None)
    tick()
    job.refresh_from_db()
    assert (job.state, "Pagewarden itself failed" in job.outcome) == (JobState.REFUSED, True)


def test_what_came_back_is_taken_out_again_by_a_worker(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "healthy")
    (worker, *_) = rotation_list(deployment=deployment)
    with pytest.raises(JobRefused, match="nothing of drill was taken out"):
        take_out_request(person=responder, deployment=deployment)
    rotation_leave(deployment=deployment, actor="run 7")
    worker_enter(deployment=deployment, worker=worker)
    job = take_out_request(person=responder, deployment=deployment)
    tick()
    job.refresh_from_db()
    assert (job.state, rotation_list(deployment=deployment)) == (JobState.DONE, ())
    assert job.outcome == "2 workers of drill are out, confirmed by the router"


def test_only_staff_asks(node: Node, outsider: User) -> None:
    with pytest.raises(NotAllowed):
        join_request(person=outsider, node=node)
    with pytest.raises(NotAllowed):
        take_out_request(person=outsider, deployment=node.deployment)


def refused_late(node: Node, person: User, monkeypatch: pytest.MonkeyPatch) -> RouterJob:
    """Refuse a join after its router was told: the order runs into its time-out."""
    job = join_request(person=person, node=node)

    def times_out(*, deployment: Deployment, worker: Worker) -> None:
        raise RouterError(f"{deployment} does not serve {worker.url} yet: the order stands")

    with monkeypatch.context() as patched:
        patched.setattr(joining, "worker_enter", times_out)
        tick()
    job.refresh_from_db()
    assert job.state == JobState.REFUSED
    assert node.url not in listed(node)
    return job


def look(after: timedelta = timedelta(0)) -> None:
    with time_machine.travel(now() + after, tick=False):
        for key in late_joins_to_look_at():
            late_join_check(job_pk=key)


def test_an_order_that_is_carried_out_late_is_taken_back_once(
    node: Node, responder: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = refused_late(node, responder, monkeypatch)
    look()
    assert late_joins_to_look_at() == []
    worker = joining._worker_of(node)  # noqa: SLF001 - what the router was told
    worker_enter(deployment=node.deployment, worker=worker)
    look(LOOK_EVERY * 2)
    assert node.url not in listed(node)
    job.refresh_from_db()
    assert "It entered all the same and was taken out again" in job.outcome
    worker_enter(deployment=node.deployment, worker=worker)
    look(LOOK_EVERY * 9)
    assert node.url in listed(node), "whoever puts it in after that means it"


def test_a_router_that_cannot_be_read_is_looked_at_again(
    node: Node, responder: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused_late(node, responder, monkeypatch)
    url = node.deployment.router_url
    Deployment.objects.update(router_url="http://127.0.0.1:9")
    look()
    Deployment.objects.update(router_url=url)
    worker_enter(deployment=node.deployment, worker=joining._worker_of(node))  # noqa: SLF001 - as above
    look(LOOK_EVERY * 2)
    assert node.url not in listed(node)


def test_what_was_let_in_after_a_refusal_stays_in(
    node: Node, responder: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused_late(node, responder, monkeypatch)
    join_request(person=responder, node=node)
    look(LOOK_EVERY * 2)
    tick()
    look(LOOK_EVERY * 4)
    assert node.url in listed(node)


def test_a_join_that_was_refused_before_any_order_is_not_watched(
    register: Register, responder: User
) -> None:
    deployment, _ = register("--scenario", "september")
    join_request(person=responder, node=out_of(deployment, "prefill-1"))
    tick()
    assert RouterJob.objects.get().state == JobState.REFUSED
    assert late_joins_to_look_at() == []
