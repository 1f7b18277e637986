"""Retiring a node: said before it is done, refused while anybody counts on the node."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from common.models import AuditTrail
from fleet.models import Deployment, Node, NodeReading, OutOfRotation
from fleet.retiring import RetireRefused, node_retire
from fleet.taking_out import rotation_list, worker_leave
from incidents.contract import Status
from probes.job_rows import LIVE_JOBS, JobKind, JobState, RouterJob
from probes.models import Audit, AuditState
from runbooks.models import Run, RunState
from runbooks.services import run_start
from tests.deployments import Register
from tests.incidents.builders import (
    bring_to,
    make_audit,
    make_deployment,
    make_incident,
    make_node,
    make_reading,
)
from tests.pages.asking import words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

GONE = "http://127.0.0.1:9"


@pytest.fixture
def node() -> Node:
    return make_node(make_deployment("glm"), "prefill-1")


def address_of(node: Node) -> str:
    return reverse("node_retire", args=[node.deployment.name, node.name])


def posted(client: Client, node: Node, typed: str | None = None) -> str:
    given = {"confirm": node.name if typed is None else typed}
    return words_of(client.post(address_of(node), given, follow=True))


def is_retired(node: Node) -> bool:
    node.refresh_from_db()
    return node.retired_at is not None


def test_a_node_is_retired_by_its_typed_name_and_what_it_showed_stays(
    by_responder: Client, node: Node
) -> None:
    reading = make_reading(node, "f" * 64, node.added_at)
    assert address_of(node) in by_responder.get("/deployments/glm/").content.decode()
    words = words_of(by_responder.get(address_of(node)))
    assert "Nobody reads or judges prefill-1 any more" in words
    assert "No router is named here" in words
    assert "prefill-1 is retired" in posted(by_responder, node)
    assert is_retired(node)
    assert NodeReading.objects.get() == reading
    assert "No nodes yet" in words_of(by_responder.get("/deployments/glm/"))
    entry = AuditTrail.objects.get(action="node_retired")
    assert (entry.actor, entry.subject) == ("rita", "glm/prefill-1")
    assert by_responder.get(address_of(node)).status_code == 404


def test_its_name_is_not_given_again_by_form(by_responder: Client, node: Node) -> None:
    posted(by_responder, node)
    given = {"name": node.name, "url": "http://127.0.0.1:1", "role": "prefill"}
    words = words_of(by_responder.post(reverse("node_add", args=["glm"]), given))
    assert "prefill-1 was retired, and its name with it" in words
    assert Node.objects.count() == 1


@pytest.mark.parametrize("typed", ["", "prefill-2", "PREFILL-1"])
def test_another_name_retires_nothing(by_responder: Client, node: Node, typed: str) -> None:
    assert "Nothing was done: type prefill-1" in posted(by_responder, node, typed)
    assert not is_retired(node)


def test_it_needs_a_role(by_outsider: Client, node: Node) -> None:
    assert by_outsider.get(address_of(node)).status_code == 403
    assert by_outsider.post(address_of(node), {"confirm": node.name}).status_code == 403
    assert address_of(node) not in by_outsider.get("/deployments/glm/").content.decode()
    assert not is_retired(node)


@pytest.mark.parametrize("state", [AuditState.QUEUED, AuditState.RUNNING])
def test_not_under_an_audit(by_responder: Client, node: Node, state: AuditState) -> None:
    audit = Audit.objects.create(deployment=node.deployment, state=state, requested_by="rita")
    says = f"audit {audit.pk} of glm is {state} and reads it: wait for it"
    assert says in words_of(by_responder.get(address_of(node)))
    assert says in posted(by_responder, node)
    assert not is_retired(node)
    Audit.objects.update(state=AuditState.DONE)
    posted(by_responder, node)
    assert is_retired(node)


@pytest.mark.parametrize("state", [RunState.ACTIVE, RunState.FAILED])
def test_not_under_a_run(
    by_responder: Client, responder: User, node: Node, state: RunState
) -> None:
    incident = bring_to(make_incident(node.deployment), Status.DECLARED)
    run = run_start(person=responder, incident=incident, book="cross_tenant_kv_exposure")
    Run.objects.update(state=state)
    says = f"run {run.pk} acts on the nodes of glm and is {state}"
    assert says in words_of(by_responder.get(address_of(node)))
    assert says in posted(by_responder, node)
    assert not is_retired(node)
    Run.objects.update(state=RunState.ABORTED)
    posted(by_responder, node)
    assert is_retired(node)


@pytest.mark.parametrize("state", LIVE_JOBS)
def test_not_under_an_act_at_its_router(by_responder: Client, node: Node, state: str) -> None:
    RouterJob.objects.create(
        deployment=node.deployment, node=node, kind=JobKind.JOIN, state=state, requested_by="carl"
    )
    says = f"“let a node in”, asked for by carl, is {state} at the router of glm"
    assert says in posted(by_responder, node)
    assert not is_retired(node)
    RouterJob.objects.update(state=JobState.REFUSED)
    posted(by_responder, node)
    assert is_retired(node)


def test_audits_and_runs_of_others_do_not_hold_it(by_responder: Client, node: Node) -> None:
    make_audit(make_deployment("other"), state=AuditState.RUNNING)
    posted(by_responder, node)
    assert is_retired(node)


def test_not_while_it_is_to_be_put_back(by_responder: Client, node: Node) -> None:
    OutOfRotation.objects.create(
        deployment=node.deployment, url=f"{node.url}/", worker={}, taken_out_by="audit 3 for rita"
    )
    says = "audit 3 for rita took it out of the router and is to put it back"
    assert says in posted(by_responder, node)
    assert not is_retired(node)


def test_a_router_that_cannot_be_read_is_no_yes(by_responder: Client, node: Node) -> None:
    Deployment.objects.update(router_url=GONE)
    words = words_of(by_responder.get(address_of(node)))
    assert "whether the router still lists it cannot be told" in words
    assert "take its address off glm first" in words
    assert "cannot be told" in posted(by_responder, node)
    assert not is_retired(node)


def test_not_while_the_router_lists_it(by_responder: Client, register: Register) -> None:
    deployment, drill = register("--scenario", "healthy")
    node = deployment.nodes.get(url=drill.nodes[0]["url"])
    words = words_of(by_responder.get(address_of(node)))
    assert f"the router still lists {node.url}: take it out at the router first" in words
    assert "the router still lists" in posted(by_responder, node)
    assert not is_retired(node)
    (worker,) = [one for one in rotation_list(deployment=deployment) if one.url == node.url]
    worker_leave(deployment=deployment, worker=worker)
    assert "The router does not list it" in words_of(by_responder.get(address_of(node)))
    posted(by_responder, node)
    assert is_retired(node)


def test_another_spelling_of_this_machine_is_not_taken_for_another_node(
    responder: User, register: Register
) -> None:
    deployment, drill = register("--scenario", "healthy")
    node = deployment.nodes.get(url=drill.nodes[0]["url"])
    node.url = node.url.replace("127.0.0.1", "localhost")
    node.save()
    with pytest.raises(RetireRefused, match="under another spelling"):
        node_retire(actor=responder, node=node)
