"""The join gate: a node enters a router only by a fresh pass, and leaves where it changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.contrib.auth.models import User

from common.models import AuditTrail
from common.roles import NotAllowed
from common.verdicts import Verdict
from fleet.contract import RouterError
from fleet.models import Deployment, Node
from fleet.reading import Role as NodeRole
from fleet.reading import Worker
from fleet.services import Look, NodeTerms, node_add, readings_take
from fleet.taking_out import rotation_leave, rotation_list, worker_enter, worker_leave
from probes import joining
from probes.joining import JoinRefused, node_join, router_view
from probes.judgement import Judgement
from probes.router_jobs import join_request
from tests.deployments import Register

pytestmark = pytest.mark.django_db

HEALTHY = ("--scenario", "healthy")


def out_of(deployment: Deployment, name: str) -> Node:
    """Take a node out as somebody else would: Pagewarden keeps no note of it."""
    node = deployment.nodes.get(name=name)
    (worker,) = [one for one in rotation_list(deployment=deployment) if one.url == node.url]
    worker_leave(deployment=deployment, worker=worker)
    return node


class Heard:
    """Whoever waits for a join."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def reports(self, text: str) -> None:
        self.said.append(text)

    def enters(self) -> None:
        self.said.append("enters")


def join(node: Node) -> Judgement:
    return node_join(actor="rita", node=node, witness=Heard())


def listed(deployment: Deployment) -> set[str]:
    return {one.url for one in rotation_list(deployment=deployment)}


def test_a_node_enters_by_a_fresh_pass(register: Register) -> None:
    deployment, drill = register(*HEALTHY)
    node = out_of(deployment, "prefill-1")
    assert [(one.node.name, one.may_ask) for one in router_view(deployment).lines] == [
        ("prefill-1", True),
        ("decode-1", False),
    ]
    assert join(node).verdict is Verdict.PASS
    (worker,) = [one for one in rotation_list(deployment=deployment) if one.url == node.url]
    assert (worker.is_healthy, worker.bootstrap_port) == (True, drill.nodes[0]["bootstrap_port"])
    acts = AuditTrail.objects.filter(subject="drill/prefill-1", actor="rita").order_by("pk")
    assert [one.action for one in acts] == ["node_joining", "node_joined"]
    assert not any(one.may_ask for one in router_view(deployment).lines)


def test_an_exposed_node_stays_out(register: Register) -> None:
    deployment, _ = register("--scenario", "september")
    node = out_of(deployment, "prefill-1")
    with pytest.raises(JoinRefused, match=r"pair_exposure of .* is fail"):
        join(node)
    assert node.url not in listed(deployment)
    assert not AuditTrail.objects.filter(action="node_joining").exists()


def test_a_node_that_does_not_answer_stays_out(register: Register) -> None:
    deployment, _ = register(*HEALTHY)
    before = listed(deployment)
    terms = NodeTerms(name="gone", url="http://127.0.0.1:9", role=NodeRole.DECODE)
    node = node_add(actor="test", deployment=deployment, terms=terms)
    with pytest.raises(JoinRefused, match="is inconclusive"):
        join(node)
    assert listed(deployment) == before


def test_nothing_joins_what_was_taken_out(register: Register) -> None:
    deployment, _ = register(*HEALTHY)
    rotation_leave(deployment=deployment, actor="run 7")
    with pytest.raises(JoinRefused, match="out of rotation by run 7"):
        join(deployment.nodes.get(name="prefill-1"))
    assert listed(deployment) == set()


def test_nothing_joins_beside_a_worker_that_nobody_reads(register: Register) -> None:
    deployment, _ = register(*HEALTHY)
    node = out_of(deployment, "prefill-1")
    stranger = deployment.nodes.get(name="decode-1")
    Node.objects.filter(pk=stranger.pk).update(url="http://127.0.0.2:1")
    with pytest.raises(JoinRefused, match="is no node of drill: add it"):
        join(node)
    assert len(router_view(deployment).strangers) == 1


def test_a_node_that_is_in_already_is_not_let_in_again(register: Register) -> None:
    deployment, _ = register(*HEALTHY)
    with pytest.raises(JoinRefused, match="lists prefill-1 already"):
        join(deployment.nodes.get(name="prefill-1"))


def test_a_node_that_changed_while_it_entered_is_taken_out_again(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, _ = register(*HEALTHY)
    node = out_of(deployment, "prefill-1")
    looks: list[Look] = []

    def restarted_at_the_second_look(*, deployment: Deployment) -> Look:
        look = readings_take(deployment=deployment)
        looks.append(look)
        readings = look.readings
        if len(looks) > 1:
            readings = tuple(replace(one, started="later") for one in readings)
        return replace(look, readings=readings)

    monkeypatch.setattr(joining, "readings_take", restarted_at_the_second_look)
    with pytest.raises(JoinRefused, match=r"taken out .* again: decode-1, prefill-1 changed"):
        join(node)
    assert node.url not in listed(deployment)


def test_a_containment_that_comes_between_wins(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, _ = register(*HEALTHY)
    node = out_of(deployment, "prefill-1")

    def contained_meanwhile(*, deployment: Deployment, worker: Worker) -> None:
        rotation_leave(deployment=deployment, actor="run 7")
        worker_enter(deployment=deployment, worker=worker)

    monkeypatch.setattr(joining, "worker_enter", contained_meanwhile)
    with pytest.raises(JoinRefused, match="run 7 took the deployment out"):
        join(node)
    assert listed(deployment) == set()


def test_only_staff_lets_a_node_in(register: Register, outsider: User) -> None:
    deployment, _ = register(*HEALTHY)
    with pytest.raises(NotAllowed):
        join_request(person=outsider, node=deployment.nodes.get(name="prefill-1"))


def test_a_node_that_the_router_cannot_take_is_not_in(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, _ = register(*HEALTHY)
    node = out_of(deployment, "prefill-1")

    def half_done(*, deployment: Deployment, worker: Worker) -> None:
        worker_enter(deployment=deployment, worker=worker)
        raise RouterError("does not serve it yet")

    monkeypatch.setattr(joining, "worker_enter", half_done)
    with pytest.raises(JoinRefused, match="did not enter the router: does not serve it yet"):
        join(node)
    assert node.url not in listed(deployment)
