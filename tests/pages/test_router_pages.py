"""Pages about routers: a whole cluster by its address, what a router lists, the join door."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from common.pages import STOP_POLLING
from fleet.models import Credential, Deployment, Purpose
from fleet.rotation_watch import rotation_check, watches_due
from fleet.taking_out import rotation_leave, rotation_list, worker_enter, worker_leave
from probes.router_jobs import job_conduct, jobs_to_wake
from tests.deployments import DrillStarter, Register
from tests.incidents.builders import make_deployment, make_node
from tests.pages.asking import words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

SECRET = "sk-planted-key"


def typed(url: str, **over: str) -> dict[str, str]:
    return {"name": "found", "router_url": url, "model": "", "engine": "", **over}


def test_looking_stores_nothing_and_adding_stores_all(
    by_responder: Client, start_drill: DrillStarter
) -> None:
    drill = start_drill("--scenario", "healthy")
    address = reverse("router_import")
    assert reverse("router_import") in by_responder.get(reverse("deployment_add")).content.decode()
    seen = by_responder.post(address, typed(drill.router, node_key=SECRET, look="1"))
    words = words_of(seen)
    assert "sglang-router: 1 prefill, 1 decode" in words
    assert all(node["url"] in words for node in drill.nodes)
    assert f" {drill.nodes[0]['bootstrap_port']} " in words
    assert SECRET not in seen.content.decode()
    assert not Deployment.objects.exists()
    added = by_responder.post(address, typed(drill.router, node_key=SECRET, add="1"), follow=True)
    assert "Deployment added from sglang-router: 1 prefill, 1 decode." in words_of(added)
    deployment = Deployment.objects.get()
    assert deployment.nodes.count() == 2
    assert Credential.objects.get(deployment=deployment, purpose=Purpose.NODE).key == SECRET


@pytest.mark.parametrize("button", ["look", "add"])
def test_an_address_that_is_no_router_is_told(by_responder: Client, button: str) -> None:
    response = by_responder.post(
        reverse("router_import"), typed("http://127.0.0.1:9", **{button: "1"})
    )
    assert "the router cannot be asked" in words_of(response)
    assert not Deployment.objects.exists()


def test_a_name_that_is_taken_is_told_by_its_field(by_responder: Client) -> None:
    make_deployment("found")
    response = by_responder.post(reverse("router_import"), typed("http://127.0.0.1:9", add="1"))
    assert "A deployment is called found already." in words_of(response)


def test_router_pages_need_a_role(by_outsider: Client) -> None:
    assert by_outsider.get(reverse("router_import")).status_code == 403
    deployment = make_deployment("glm")
    make_node(deployment, "p0")
    join = reverse("node_join", args=["glm", "p0"])
    assert by_outsider.post(join).status_code == 403


def test_a_node_is_let_in_from_the_page(by_responder: Client, register: Register) -> None:
    deployment, drill = register("--scenario", "healthy")
    (worker,) = [
        one for one in rotation_list(deployment=deployment) if one.url == drill.nodes[0]["url"]
    ]
    worker_leave(deployment=deployment, worker=worker)
    address = reverse("router", args=["drill"])
    words = words_of(by_responder.get(address))
    assert "not listed" in words
    assert "listed as decode, healthy" in words
    join = reverse("node_join", args=["drill", "prefill-1"])
    by_responder.post(join, follow=True)
    job_page = reverse("router_job", args=["drill"])
    fragment = {"HX-Request": "true", "HX-Target": "router_job"}
    waiting = by_responder.get(job_page, headers=fragment)
    assert (waiting.status_code, "waiting for a worker" in words_of(waiting)) == (200, True)
    again = by_responder.post(join, follow=True)
    assert "something is being done at the router of drill already" in words_of(again)
    for key in jobs_to_wake():
        job_conduct(job_pk=key)
    over = by_responder.get(job_page, headers=fragment)
    assert over.status_code == STOP_POLLING
    assert "prefill-1 is in the router: every required gate passed" in words_of(over)
    assert "listed as prefill, healthy" in words_of(by_responder.get(address))


def test_what_is_listed_again_is_taken_out_from_the_page(
    by_responder: Client, by_outsider: Client, register: Register
) -> None:
    deployment, _ = register("--scenario", "healthy")
    (worker, *_) = rotation_list(deployment=deployment)
    rotation_leave(deployment=deployment, actor="run 7")
    worker_enter(deployment=deployment, worker=worker)
    for key in watches_due():
        rotation_check(watch_pk=key)
    page = reverse("deployment", args=["drill"])
    assert "Take out again" in words_of(by_responder.get(page))
    assert "Take out again" not in words_of(by_outsider.get(page))
    address = reverse("take_out", args=["drill"])
    assert by_outsider.post(address).status_code == 403
    by_responder.post(address)
    for key in jobs_to_wake():
        job_conduct(job_pk=key)
    assert rotation_list(deployment=deployment) == ()
    assert "Take out again" not in words_of(by_responder.get(page))


def test_a_router_that_cannot_be_read_is_told(by_outsider: Client) -> None:
    make_deployment("glm")
    Deployment.objects.update(router_url="http://127.0.0.1:9", router_kind="")
    assert "It cannot be read" in words_of(by_outsider.get(reverse("router", args=["glm"])))


def test_the_deployment_page_warns_before_a_split_vllm_router_is_emptied(
    by_responder: Client, register: Register
) -> None:
    deployment, drill = register("--scenario", "september")
    deployment.audits.create(
        deadline_at=deployment.added_at, requested_by="t", trigger="t", state="done"
    ).checks.create(
        check_name="pair_exposure",
        target="prefill-1/decode-1",
        verdict="fail",
        required=True,
        kind="config",
        reason="exposed",
    )
    page = reverse("deployment", args=["drill"])
    assert "needs a restart of the router" not in words_of(by_responder.get(page))
    Deployment.objects.update(router_kind="vllm-router")
    words = words_of(by_responder.get(page))
    assert f"putting {drill.nodes[0]['url']} back needs a restart of the router" in words
