"""The runbook on a leaking drill: every step by its real act, and by its failures."""

from __future__ import annotations

import time

import pytest
from django.contrib.auth.models import User

from fleet.models import OutOfRotation
from fleet.taking_out import rotation_list
from incidents.contract import Status
from incidents.models import Incident
from incidents.services import incident_declare, pull_now
from probes.conduct import LIVE, audit_conduct
from probes.models import Audit
from probes.services import exposure_accept
from runbooks.advance import run_advance
from runbooks.models import Run, RunState, RunStep, StepState
from runbooks.services import run_start, step_approve, step_confirm, step_start
from tests.deployments import Register, redeploy

pytestmark = pytest.mark.django_db
BOOK = "cross_tenant_kv_exposure"


@pytest.fixture
def leaking(register: Register, responder: User, commander: User) -> Incident:
    """Answer the declared incident of a drill on which a round has found a leak."""
    deployment, _ = register("--scenario", "september")
    audit = exposure_accept(person=responder, deployment=deployment, reason="drill")
    audit_conduct(audit_pk=audit.pk)
    pull_now()
    incident = Incident.objects.get()
    assert (incident.status, incident.kind) == (Status.TRIAGE, "leak")
    incident_declare(person=commander, incident=incident)
    return Incident.objects.get()


def work_off(run: Run, *, until: StepState = StepState.WAITING) -> RunStep:
    """Do what workers would until a person is needed, the run ends or a step fails."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        run_advance(run_pk=run.pk)
        for audit in Audit.objects.filter(state__in=LIVE):
            audit_conduct(audit_pk=audit.pk)
        step = run.steps.exclude(state=StepState.DONE).first()
        if step is None or step.state in {until, StepState.WAITING, StepState.FAILED}:
            return step or run.steps.order_by("-position")[0]
    raise AssertionError(
        f"nothing came of it: {[(s.key, s.state, s.progress) for s in run.steps.all()]}"
    )


def status_of(run: Run) -> str:
    return Incident.objects.get(pk=run.incident_id).status


def run_to_restore(incident: Incident, responder: User) -> tuple[Run, RunStep]:
    run = run_start(person=responder, incident=incident, book=BOOK)
    step = work_off(run)
    assert step.key == "disable"
    step_start(person=responder, step=step)
    step = work_off(run)
    assert (step.key, status_of(run)) == ("patch", Status.CONTAINED)
    step_start(person=responder, step=step)
    step = work_off(run)
    assert step.key == "restore", (step.key, step.outcome)
    assert status_of(run) == Status.MITIGATED
    return run, step


def test_the_run_leads_from_a_leak_to_a_proved_deployment(
    leaking: Incident, responder: User, commander: User
) -> None:
    run, restore = run_to_restore(leaking, responder)
    deployment = leaking.deployment
    assert rotation_list(deployment=deployment) == ()
    step_approve(person=commander, step=restore)
    tell = work_off(run)
    assert (tell.key, status_of(run)) == ("tell", Status.RESTORED), tell.outcome
    assert len(rotation_list(deployment=deployment)) == 2
    assert not OutOfRotation.objects.filter(put_back_at=None).exists()
    assert deployment.proofs.filter(voided_at=None).exists()
    step_confirm(person=responder, step=tell, note="Customers told by mail.")
    run.refresh_from_db()
    assert run.state == RunState.DONE
    assert leaking.evidence.count() == 1
    assert not leaking.deployment.findings.filter(
        resolved_at=None, check_name__startswith="boundary"
    ).exists()


def test_disable_proves_that_the_router_lists_nobody(leaking: Incident, responder: User) -> None:
    run = run_start(person=responder, incident=leaking, book=BOOK)
    step_start(person=responder, step=work_off(run))
    work_off(run)
    disable = run.steps.get(key="disable")
    assert disable.state == StepState.DONE
    assert "2 workers out" in disable.outcome
    assert rotation_list(deployment=leaking.deployment) == ()


def test_a_check_that_fails_after_restore_takes_everything_out_again(
    leaking: Incident, responder: User, commander: User
) -> None:
    run, restore = run_to_restore(leaking, responder)
    control = type("Drill", (), {"control": leaking.deployment.control_url})()
    redeploy(control, "prefill-1", engine_version="0.5.19", pool=10624)
    step_approve(person=commander, step=restore)
    failed = work_off(run)
    assert (failed.key, failed.state) == ("restore", StepState.FAILED)
    assert rotation_list(deployment=leaking.deployment) == ()
    assert status_of(run) == Status.CONTAINED
    assert not leaking.deployment.proofs.filter(voided_at=None).exists()
