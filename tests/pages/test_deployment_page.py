from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from common.clock import now
from common.verdicts import Verdict
from fleet.models import Deployment, NodeReading, OutOfRotation
from fleet.rotation_rows import RotationWatch
from probes.judgement import Kind
from probes.models import Acceptance, Audit, AuditState, Way
from probes.selectors import findings_ranked
from tests.incidents.builders import (
    make_audit,
    make_check,
    make_deployment,
    make_finding,
    make_incident,
    make_node,
    make_proof,
)
from tests.pages.asking import ask_fragment, words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]


def exposed(name: str = "glm") -> Deployment:
    deployment = make_deployment(name)
    deployment.router_url = "http://127.0.0.1:21000"
    deployment.save()
    audit = make_audit(deployment)
    make_check(audit, check="pair_exposure", figures={"band": [10_618, 16_377]})
    return deployment


def test_an_unknown_deployment_is_not_found(by_responder: Client) -> None:
    assert by_responder.get("/deployments/nobody/").status_code == 404


def test_a_fresh_deployment_says_that_nothing_is_known(by_responder: Client) -> None:
    make_deployment("glm")
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "no verdict yet" in words
    assert "No nodes yet" in words
    assert "None yet. An audit with its canary round must pass." in words


def test_a_node_shows_its_newest_reading_and_band(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    node = make_node(deployment, "prefill-1")
    for pool in (1, 10_624):
        NodeReading.objects.create(
            node=node,
            taken_at=now(),
            fingerprint="f" * 64,
            document={
                "version": "0.5.19",
                "context": 16_384,
                "pool": pool,
                "first_refused": 10_618,
                "last_admitted": 10_617,
            },
        )
    audit = make_audit(deployment)
    check = make_check(
        audit, check="pool_covers_context", figures={"danger_band": [10_618, 16_383]}
    )
    check.target = "prefill-1"
    check.save()
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "0.5.19 10,624 16,384 10,617 10,618 10,618 to 16,383" in words


def test_a_node_that_did_not_answer_says_so(by_responder: Client) -> None:
    node = make_node(make_deployment("glm"), "prefill-1")
    NodeReading.objects.create(
        node=node,
        taken_at=now(),
        fingerprint="f" * 64,
        problem="it did not answer within 10 s",
        document={},
    )
    assert "it did not answer within 10 s" in words_of(by_responder.get("/deployments/glm/"))


def test_an_exposed_pair_offers_its_three_ways(by_responder: Client) -> None:
    deployment = exposed()
    make_finding(deployment, audit=deployment.audits.get())
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "10,618 to 16,377" in words
    assert "Cordon and probe" in words
    assert "Accept exposure" in words
    offered = ask_fragment(by_responder, "/deployments/glm/incident/", "deployment_incident")
    assert "Declare incident" in words_of(offered)


def test_a_pair_that_is_not_exposed_offers_none_of_them(by_responder: Client) -> None:
    audit = make_audit(make_deployment("glm"), Verdict.PASS)
    make_check(audit, Verdict.PASS, check="pair_exposure", figures={"band": None})
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "Cordon and probe" not in words
    assert "Accept exposure" not in words


def test_the_open_incident_is_shown_instead_of_a_declaration(by_responder: Client) -> None:
    incident = make_incident(exposed())
    shown = words_of(
        ask_fragment(by_responder, "/deployments/glm/incident/", "deployment_incident")
    )
    assert incident.reference in shown
    assert "Declare" not in shown


def test_run_audit_queues_one_and_shows_it(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    response = by_responder.post(reverse("audit_start", args=["glm"]))
    audit = Audit.objects.get(deployment=deployment)
    assert response["Location"] == reverse("audit", args=[audit.pk])
    assert (audit.state, audit.way, audit.requested_by) == (AuditState.QUEUED, Way.ROUTER, "rita")


def test_a_second_audit_is_refused_in_words(by_responder: Client) -> None:
    make_deployment("glm")
    by_responder.post(reverse("audit_start", args=["glm"]))
    response = by_responder.post(reverse("audit_start", args=["glm"]), follow=True)
    assert "is under way: wait for it" in words_of(response)
    assert Audit.objects.count() == 1


def test_an_outsider_may_look_but_not_act(by_outsider: Client) -> None:
    exposed()
    words = words_of(by_outsider.get("/deployments/glm/"))
    assert "Run audit: a responder or commander" in words
    assert "Cordon and probe" not in words
    for name in ("audit_start", "exposure_accepted", "cordon"):
        given = {"reason": "because", "confirm": "glm"}
        response = by_outsider.post(reverse(name, args=["glm"]), given)
        assert response.status_code == 403, name
        assert "only a responder or commander may" in words_of(response)
    assert not Audit.objects.filter(state=AuditState.QUEUED).exists()


def test_acts_take_a_post(by_responder: Client) -> None:
    make_deployment("glm")
    for name in ("audit_start", "exposure_accepted", "cordon"):
        assert by_responder.get(reverse(name, args=["glm"])).status_code == 405, name


def test_cordoning_wants_the_name_typed(by_responder: Client) -> None:
    exposed()
    response = by_responder.post(reverse("cordon", args=["glm"]), {"confirm": "gl"}, follow=True)
    assert "Nothing was done: type glm" in words_of(response)
    by_responder.post(reverse("cordon", args=["glm"]), {"confirm": "glm"})
    audit = Audit.objects.get(state=AuditState.QUEUED)
    assert (audit.way, audit.is_cordoning) == (Way.PAIR, True)


def test_accepting_an_exposure_wants_a_reason_and_keeps_the_name(
    by_responder: Client, responder: User
) -> None:
    exposed()
    address = reverse("exposure_accepted", args=["glm"])
    refused = by_responder.post(address, {"reason": "   "}, follow=True)
    assert "say why the round is worth its risk" in words_of(refused)
    by_responder.post(address, {"reason": "maintenance window"})
    acceptance = Acceptance.objects.get()
    assert (acceptance.by, acceptance.reason) == (responder, "maintenance window")
    assert Audit.objects.get(acceptance=acceptance).state == AuditState.QUEUED


def test_what_is_out_of_rotation_is_listed(by_responder: Client) -> None:
    OutOfRotation.objects.create(
        deployment=make_deployment("glm"), url="http://127.0.0.1:21001", worker={}, taken_out_by="x"
    )
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "http://127.0.0.1:21001" in words
    assert "not confirmed yet" in words


def test_a_void_proof_says_why(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    proof = make_proof(deployment)
    proof.voided_at, proof.void_reason = now(), "prefill-1 changed or restarted"
    proof.save()
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "inconclusive" in words
    assert "prefill-1 changed or restarted" in words


def test_a_standing_proof_says_what_it_excludes(by_responder: Client) -> None:
    proof = make_proof(make_deployment("glm"))
    make_check(proof.audit, Verdict.PASS)
    assert "What it excludes: so it is" in words_of(by_responder.get("/deployments/glm/"))


def test_the_standing_refreshes_alone(by_responder: Client) -> None:
    make_deployment("glm")
    response = ask_fragment(by_responder, "/deployments/glm/", "standing")
    assert response.content.decode().strip().startswith('<section id="standing"')


def test_more_nodes_and_audits_need_no_more_queries(
    by_responder: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    deployment = exposed()
    make_node(deployment, "prefill-1")
    with django_assert_max_num_queries(27) as few:
        by_responder.get("/deployments/glm/")
    for number in range(2, 6):
        node = make_node(deployment, f"prefill-{number}")
        NodeReading.objects.create(node=node, taken_at=now(), fingerprint="f" * 64, document={})
        make_finding(deployment, check=f"check-{number}", audit=make_audit(deployment))
    with django_assert_max_num_queries(len(few)):
        by_responder.get("/deployments/glm/")


def test_a_finding_shows_how_to_close_it_and_what_that_costs(by_responder: Client) -> None:
    finding = make_finding(make_deployment("glm"), Kind.CONFIG, check="pool_covers_context")
    finding.remedies = [
        {
            "check": "pool_covers_context",
            "target": "prefill-1",
            "action": "lower the context to 545,024 on every node",
            "flags": {"prefill-1": ["--context-length 545024"]},
            "predicted_band": [681_274, 1_048_569],
            "full_length_requests_before": 0.64971923828125,
            "full_length_requests_after": 1.25,
        }
    ]
    finding.save()
    words = words_of(by_responder.get("/deployments/glm/"))
    assert "lower the context to 545,024 on every node" in words
    assert "prefill-1: --context-length 545024" in words
    assert "0.65 before, 1.25 after" in words
    assert "lengths left: 681,274 to 1,048,569" in words


def test_findings_stand_by_weight_then_verdict_then_age(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    old, new = make_audit(deployment), make_audit(deployment)
    at = now()
    for check, age_h, said, required in (
        ("advice-new", 0, {new: Verdict.FAIL}, False),
        ("needed-old", 9, {old: Verdict.FAIL, new: Verdict.FAIL}, True),
        ("needed-unshown", 1, {old: Verdict.FAIL, new: Verdict.INCONCLUSIVE}, True),
        ("needed-new", 5, {new: Verdict.FAIL}, True),
        ("needed-unasked", 7, {old: Verdict.FAIL}, True),
    ):
        for audit, verdict in said.items():
            make_check(audit, verdict, check=check, required=required)
        first = new if new in said and said[new] is Verdict.FAIL else old
        make_finding(deployment, check=check, audit=first, seen_at=at - timedelta(hours=age_h))
    ranked = findings_ranked(deployment)
    assert [one.finding.check_name for one in ranked] == [
        "needed-new",
        "needed-unasked",
        "needed-old",
        "needed-unshown",
        "advice-new",
    ]
    assert [str(one.verdict) for one in ranked][3:] == ["inconclusive", "fail"]
    words = words_of(by_responder.get("/deployments/glm/"))
    assert words.index("needed-new") < words.index("needed-unshown") < words.index("advice-new")
    assert words.count("could not show that it is gone") == 1


def test_what_came_back_into_the_router_is_told_where_it_is_listed_as_out(
    by_responder: Client,
) -> None:
    deployment = make_deployment("glm")
    OutOfRotation.objects.create(
        deployment=deployment, url="http://p0", worker={}, taken_out_by="x", confirmed_at=now()
    )
    watch = RotationWatch.objects.create(deployment=deployment, read_at=now())
    page = "/deployments/glm/"
    assert "The router listed none of it" in words_of(by_responder.get(page))
    watch.listed, watch.listed_since_at = ["http://p0"], now()
    watch.save()
    words = words_of(by_responder.get(page))
    assert "The router lists http://p0 since" in words
    assert "listed none" not in words
    watch.listed, watch.problem, watch.problem_since_at = [], "time-out", now()
    watch.save()
    words = words_of(by_responder.get(page))
    assert "Not known whether it stays out" in words
    assert "listed none" not in words
