"""Whole audits of a running drill: refused, accepted, cordoned, stopped, drifted."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.db import connection

from fleet.models import Deployment, OutOfRotation
from fleet.taking_out import rotation_list
from probes.conduct import audit_conduct
from probes.drift_watch import drift_check
from probes.models import Audit, AuditState, Way
from probes.selectors import findings_awaiting_incident, proof_standing
from probes.services import (
    AuditError,
    audit_cancel,
    audit_queue,
    audit_request,
    cordon_and_probe,
    exposure_accept,
)
from tests.deployments import Register, await_serving, redeploy

pytestmark = pytest.mark.django_db


def conduct(audit: Audit) -> Audit:
    assert audit_conduct(audit_pk=audit.pk)
    audit.refresh_from_db()
    assert audit.is_over
    return audit


def verdicts(audit: Audit) -> dict[str, str]:
    return {check.check_name: check.verdict for check in audit.checks.all()}


def test_an_exposed_pair_is_not_probed_in_rotation(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "september")
    audit = conduct(audit_request(person=responder, deployment=deployment))
    found = verdicts(audit)
    assert audit.verdict == "fail"
    assert found["pair_exposure"] == "fail"
    assert found["boundary.foreign_marker"] == "not_exercised"
    assert audit.cost_tokens == 0
    assert not audit.rows.exists()
    exposure = audit.checks.get(check_name="pair_exposure")
    assert exposure.figures["band"] == [10618, 16377]
    assert proof_standing(deployment) is None
    assert not findings_awaiting_incident().exists()


def test_an_accepted_exposure_names_tenant_request_and_page(
    register: Register, responder: User
) -> None:
    deployment, drill = register("--scenario", "september")
    audit = conduct(
        exposure_accept(person=responder, deployment=deployment, reason="customers are away")
    )
    leak = audit.checks.get(check_name="boundary.foreign_marker")
    assert leak.verdict == "fail"
    assert leak.kind == "leak"
    assert leak.figures["tenant"] == drill.tenants[0]["name"]
    assert leak.figures["request"]
    assert leak.figures["page"] is not None
    assert leak.figures["length"] >= leak.figures["first_refused"] == 10618
    assert findings_awaiting_incident().filter(check_name="boundary.foreign_marker").exists()
    assert audit.cost_tokens > 0


def test_answers_are_sealed_and_open_only_through_the_row(
    register: Register, responder: User
) -> None:
    deployment, _ = register("--scenario", "september")
    audit = conduct(exposure_accept(person=responder, deployment=deployment, reason="drill"))
    row = next(one for one in audit.rows.all() if one.sealed_answer)
    with connection.cursor() as cursor:
        cursor.execute("SELECT sealed_answer FROM probes_canaryrow WHERE id = %s", [row.pk])
        stored = bytes(cursor.fetchone()[0])
    assert row.answer.encode()[:40] not in stored
    assert row.answer not in json.dumps(row.document)


def test_an_acceptance_is_good_for_one_round_and_these_nodes(
    register: Register, responder: User
) -> None:
    deployment, drill = register("--scenario", "september")
    audit = exposure_accept(person=responder, deployment=deployment, reason="drill")
    redeploy(drill, "prefill-1", pool=10560)
    await_serving(deployment)
    found = verdicts(conduct(audit))
    assert found["boundary.foreign_marker"] == "not_exercised"
    assert not audit.rows.exists()


def test_a_healthy_deployment_is_proved_and_drift_voids_the_proof(
    register: Register, responder: User
) -> None:
    deployment, drill = register("--scenario", "healthy")
    audit = conduct(audit_request(person=responder, deployment=deployment))
    assert audit.verdict == "pass", [
        (check.check_name, check.verdict, check.reason) for check in audit.checks.all()
    ]
    assert proof_standing(deployment) is not None
    assert drift_check(deployment_pk=deployment.pk) == ""
    redeploy(drill, "decode-1", pool=20544)
    await_serving(deployment)
    assert "decode-1" in drift_check(deployment_pk=deployment.pk)
    assert proof_standing(deployment) is None


def test_without_a_grant_the_round_is_not_sent(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "healthy", granted_tokens=0)
    audit = conduct(audit_request(person=responder, deployment=deployment))
    assert audit.verdict == "not_exercised"
    assert proof_standing(deployment) is None


def test_cordoned_and_leaking_stays_out(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "september")
    audit = conduct(cordon_and_probe(person=responder, deployment=deployment))
    assert verdicts(audit)["boundary.foreign_marker"] == "fail"
    assert rotation_list(deployment=deployment) == ()
    assert OutOfRotation.objects.filter(put_back_at=None).count() == 2


def test_cordoned_and_clean_goes_back(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "healthy")
    audit = conduct(cordon_and_probe(person=responder, deployment=deployment))
    assert audit.verdict == "pass", audit.headline
    assert len(rotation_list(deployment=deployment)) == 2
    assert not OutOfRotation.objects.filter(put_back_at=None).exists()


def test_a_dead_router_proves_nothing(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "healthy")
    Deployment.objects.filter(pk=deployment.pk).update(router_url="http://127.0.0.1:9")
    deployment.refresh_from_db()
    audit = conduct(audit_request(person=responder, deployment=deployment))
    assert audit.verdict in {"inconclusive", "not_exercised"}
    assert not audit.rows.exists()


def test_two_audits_at_once_are_refused(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "healthy")
    audit_request(person=responder, deployment=deployment)
    with pytest.raises(AuditError, match="under way"):
        audit_request(person=responder, deployment=deployment)


def test_a_stopped_audit_sends_nothing(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "healthy")
    audit = audit_request(person=responder, deployment=deployment)
    audit_cancel(person=responder, audit=audit)
    assert not audit_conduct(audit_pk=audit.pk)
    audit.refresh_from_db()
    assert (audit.state, audit.verdict) == (AuditState.STOPPED, "inconclusive")


def test_an_audit_that_kills_its_workers_is_ended(register: Register) -> None:
    deployment, _ = register("--scenario", "healthy")
    audit = audit_queue(deployment=deployment, actor="test", trigger="test", way=Way.NONE)
    Audit.objects.filter(pk=audit.pk).update(attempts=3)
    assert "3 workers died" in conduct(audit).problem


def test_an_audit_runs_the_plans_of_its_deployment(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "healthy")
    deployment.plans = ["reference", "churn"]
    deployment.save()
    audit = conduct(audit_request(person=responder, deployment=deployment))
    found = verdicts(audit)
    assert {name.partition(".")[0] for name in found} >= {"reference", "churn"}
    assert not any(name.startswith("boundary.") for name in found)
    assert found["reference.reference"] == found["churn.reference"] == "pass"
    assert found["reference.together"] == "not_exercised"
    assert audit.verdict == "pass", "what needs a cordon is advice here"


def test_a_plan_that_nobody_knows_ends_the_audit(register: Register, responder: User) -> None:
    deployment, _ = register("--scenario", "healthy")
    deployment.plans = ["boundry"]
    deployment.save()
    audit = conduct(audit_request(person=responder, deployment=deployment))
    assert audit.state == AuditState.STOPPED
    assert "boundry" in audit.problem
    assert audit.verdict == "inconclusive"


def test_each_round_is_kept_under_its_plan_with_what_it_cost(
    register: Register, responder: User
) -> None:
    deployment, _ = register("--scenario", "healthy")
    audit = conduct(
        audit_request(person=responder, deployment=deployment, plans=["concurrency", "gateway"])
    )
    first, second = audit.rounds
    # In rotation nothing is sent at once, so of the first plan there is no row; the second's are
    # its own all the same.
    assert (first["plan"], first["verdict"]) == ("concurrency", "not_exercised")
    assert first["cost"]["requests"] == 0
    assert (second["number"], second["plan"]) == (2, "gateway")
    rows = list(audit.rows.all())
    assert {row.round_number for row in rows} == {2}
    assert second["cost"]["requests"] == len(rows)
    assert second["cost"]["spent_tokens"] == audit.cost_tokens
    assert second["cost"]["estimated_tokens"] > 0
