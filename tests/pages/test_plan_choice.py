"""Canary plans on the pages: kept of a deployment, chosen for one audit, their cost told before."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from common.clock import now
from fleet.models import Deployment, Node, NodeReading
from fleet.reading import Load, Reading
from fleet.snapshot import reading_document, reading_from
from probes.canary.budget import SHARE_PERCENT
from probes.canary.contract import PLANS
from probes.models import Audit
from probes.plan_costs import plan_costs, usual_estimate
from tests.incidents.builders import make_audit, make_check, make_deployment
from tests.pages.asking import words_of
from tests.pages.test_fleet_forms import DEPLOYMENT
from tests.probes.builders import decode, prefill

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

GRANT = 1_000_000


def read_nodes(*, pool: int = 20_480) -> tuple[Reading, Reading]:
    load = Load(running=0, waiting=0, used_tokens=0, free_tokens=pool)
    return prefill(pool=pool, load=load, reserve=512), decode(pool=pool, load=load, reserve=512)


def read_deployment(*, granted_tokens: int = GRANT) -> Deployment:
    deployment = make_deployment("glm")
    deployment.granted_tokens = granted_tokens
    deployment.save()
    for reading in read_nodes():
        url = f"http://127.0.0.1/{reading.node}"
        node = Node.objects.create(
            deployment=deployment, name=reading.node, url=url, role=reading.role
        )
        NodeReading.objects.create(
            node=node,
            taken_at=now(),
            fingerprint=reading.fingerprint,
            document=reading_document(reading),
        )
    return deployment


def test_a_stored_reading_is_read_back_with_all_its_figures() -> None:
    reading, _ = read_nodes()
    again = reading_from(reading_document(reading), taken_at=reading.taken_at)
    assert again.identity() == reading.identity()
    assert (again.load, again.role, again.is_read) == (reading.load, reading.role, True)


def test_the_form_offers_every_plan_and_keeps_the_chosen(by_responder: Client) -> None:
    words = words_of(by_responder.get(reverse("deployment_add")))
    for key, plan in PLANS.all().items():
        assert f"{key}: {plan.title}" in words
    by_responder.post(reverse("deployment_add"), {**DEPLOYMENT, "plans": ["salt", "churn"]})
    deployment = Deployment.objects.get()
    assert deployment.plans == ["salt", "churn"]
    page = by_responder.get(reverse("deployment_change", args=["glm"])).content.decode()
    checked = " ".join(page.split()).split("checked")
    assert len(checked) == 1 + len(deployment.plans)


def test_an_unknown_plan_is_refused_by_the_form(by_responder: Client) -> None:
    response = by_responder.post(reverse("deployment_add"), {**DEPLOYMENT, "plans": ["nothing"]})
    assert "nothing is not one of the available choices" in words_of(response)
    assert not Deployment.objects.exists()


def test_a_changed_grant_leaves_the_plans(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    Deployment.objects.update(plans=["reference"])
    by_responder.post(reverse("grant_change", args=["glm"]), {"granted_tokens": "7"})
    deployment.refresh_from_db()
    assert (deployment.granted_tokens, deployment.plans) == (7, ["reference"])


def test_plans_are_chosen_for_one_audit_alone(by_responder: Client) -> None:
    make_deployment("glm")
    by_responder.post(reverse("audit_start", args=["glm"]), {"plans": ["salt", "gateway"]})
    assert Audit.objects.get().plans == ["salt", "gateway"]
    assert Deployment.objects.get().plans == []


def test_without_a_choice_those_of_the_deployment_are_run(by_responder: Client) -> None:
    make_deployment("glm")
    Deployment.objects.update(plans=["reference"])
    by_responder.post(reverse("audit_start", args=["glm"]))
    assert Audit.objects.get().plans == ["reference"]


def test_an_unknown_plan_queues_nothing(by_responder: Client) -> None:
    make_deployment("glm")
    address = reverse("audit_start", args=["glm"])
    response = by_responder.post(address, {"plans": ["nothing"]}, follow=True)
    assert "Nothing was queued" in words_of(response)
    assert not Audit.objects.exists()


def test_responders_alone_choose(by_responder: Client, by_outsider: Client) -> None:
    read_deployment()
    assert "Choose plans for this audit" in words_of(by_responder.get("/deployments/glm/"))
    assert "Choose plans" not in words_of(by_outsider.get("/deployments/glm/"))
    refused = by_outsider.post(reverse("audit_start", args=["glm"]), {"plans": ["salt"]})
    assert refused.status_code == 403


def test_the_cost_is_worked_out_from_the_last_readings(by_responder: Client) -> None:
    deployment = read_deployment()
    costs = {one.key: one for one in plan_costs(deployment)}
    told = costs["boundary"].estimate
    assert told is not None
    # A boundary round fills the pool once, at least.
    assert 20_480 <= told.tokens <= GRANT
    assert told.seconds > 0
    assert usual_estimate([*costs.values()]) == told
    words = words_of(by_responder.get("/deployments/glm/"))
    assert f"at most {told.tokens:,} tokens in {told.requests} requests" in words
    change = words_of(by_responder.get(reverse("deployment_change", args=["glm"])))
    assert f"At most {told.tokens:,} tokens in {told.requests} requests" in change


def test_a_round_beyond_the_grant_says_that_it_is_not_sent() -> None:
    deployment = read_deployment(granted_tokens=0)
    costs = {one.key: one for one in plan_costs(deployment)}
    assert costs["boundary"].estimate is None
    assert "not sent in rotation as things stand: more than is granted" in costs["boundary"].says
    allowed = 20_480 * SHARE_PERCENT // 100
    sent = [one.estimate.tokens for one in costs.values() if one.estimate is not None]
    assert all(tokens <= allowed for tokens in sent)


def test_without_a_reading_nothing_is_foretold(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    assert all(one.foretold is None and one.says == "" for one in plan_costs(deployment))
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "what it costs shows once every node was read" in words


def test_a_node_that_was_not_read_foretells_nothing() -> None:
    deployment = read_deployment()
    newest = NodeReading.objects.get(node__name="decode-1")
    NodeReading.objects.filter(pk=newest.pk).update(
        document={**newest.document, "problem": "it does not answer"}
    )
    assert all(one.foretold is None for one in plan_costs(deployment))


def test_what_a_plan_did_cost_the_last_time_is_told() -> None:
    deployment = read_deployment()
    paid = {"spent_tokens": 4_321, "requests": 9, "seconds": 2.5}
    make_audit(deployment, rounds=[{"number": 1, "plan": "boundary", "target": "r", "cost": paid}])
    never = {"spent_tokens": 0, "requests": 0, "seconds": 0.0}
    make_audit(deployment, rounds=[{"number": 1, "plan": "boundary", "target": "r", "cost": never}])
    says = {one.key: one.says for one in plan_costs(deployment)}
    assert "last time 4,321 tokens in 9 requests, 2.5 s" in says["boundary"]
    assert "last time" not in says["salt"]


def test_a_pair_that_is_exposed_is_said_beside_the_cost(by_responder: Client) -> None:
    deployment = read_deployment()
    make_check(make_audit(deployment), check="pair_exposure", figures={"band": [1, 2]})
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "A pair is exposed, so nothing is sent in rotation and nothing is paid" in words
