"""The runbook on a leaking drill: every step by its real act, and by its failures."""

from __future__ import annotations

import time

import pytest
from django.contrib.auth.models import User

from common.clock import now
from fleet.contract import RouterError
from fleet.models import Deployment, OutOfRotation
from fleet.reading import Worker
from fleet.rotation import worker_from
from fleet.rotation_rows import RotationWatch
from fleet.rotation_watch import rotation_check, watches_due
from fleet.taking_out import rotation_list, rotation_return, worker_enter
from incidents.contract import Status
from incidents.models import Incident
from incidents.services import incident_declare, pull_now
from probes.conduct import LIVE, audit_conduct
from probes.models import Audit
from probes.services import exposure_accept
from runbooks.advance import run_advance
from runbooks.models import Run, RunState, RunStep, StepState
from runbooks.services import run_start, step_approve, step_confirm, step_start
from runbooks.steps import restore as steps_restore
from runbooks.sweeps import reopen_containments
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


def look_and_pull() -> None:
    """Do what ticks and workers do about routers from which workers were taken out."""
    RotationWatch.objects.update(looked_at=None)
    for key in watches_due():
        rotation_check(watch_pk=key)
    pull_now()
    reopen_containments()


def test_a_worker_that_comes_back_reopens_the_containment_before_all_else(
    leaking: Incident, responder: User, commander: User
) -> None:
    run, restore = run_to_restore(leaking, responder)
    deployment = leaking.deployment
    taken = worker_from(OutOfRotation.objects.filter(put_back_at=None)[0].worker)
    look_and_pull()
    assert status_of(run) == Status.MITIGATED
    worker_enter(deployment=deployment, worker=taken)
    for _ in range(2):
        look_and_pull()
    assert status_of(run) == Status.DECLARED
    disable = run.steps.get(key="disable")
    assert (disable.state, disable.tries) == (StepState.WAITING, 1)
    assert taken.url in disable.outcome
    assert leaking.events.filter(kind="step_reopened").count() == 1
    step_approve(person=commander, step=restore)
    run_advance(run_pk=run.pk)
    assert run.steps.get(key="restore").state == StepState.READY, "nothing goes back before"
    step_start(person=responder, step=disable)
    run_advance(run_pk=run.pk)
    assert rotation_list(deployment=deployment) == ()
    assert status_of(run) == Status.CONTAINED
    tell = work_off(run)
    assert (tell.key, status_of(run)) == ("tell", Status.RESTORED), tell.outcome
    look_and_pull()
    assert status_of(run) == Status.RESTORED
    assert run.steps.get(key="disable").state == StepState.DONE


def test_a_verification_that_ends_on_a_broken_containment_says_so(
    leaking: Incident, responder: User
) -> None:
    run = run_start(person=responder, incident=leaking, book=BOOK)
    step_start(person=responder, step=work_off(run))
    step_start(person=responder, step=work_off(run))
    worker = worker_from(OutOfRotation.objects.filter(put_back_at=None)[0].worker)
    deadline = time.monotonic() + 60
    while run.steps.get(key="verify").state == StepState.PENDING:
        run_advance(run_pk=run.pk)
        assert time.monotonic() < deadline
    worker_enter(deployment=leaking.deployment, worker=worker)
    RotationWatch.objects.update(looked_at=None)
    for key in watches_due():
        rotation_check(watch_pk=key)
    pull_now()
    verify = work_off(run)
    assert (verify.key, verify.state) == ("verify", StepState.FAILED)
    assert "is declared and cannot be moved to mitigated" in verify.outcome
    assert status_of(run) == Status.DECLARED, "an undo must not call this contained"


def test_a_router_that_takes_workers_only_by_a_restart_is_waited_for(
    leaking: Incident, responder: User, commander: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, restore = run_to_restore(leaking, responder)
    deployment = leaking.deployment
    answers = ["restart it with these workers", "does not answer", "does not answer"]

    def only_by_restart(*, deployment: Deployment) -> tuple[Worker, ...]:
        if not answers:
            return rotation_return(deployment=deployment)
        deployment.taken_out.update(return_ordered_at=now())
        raise RouterError(answers.pop(0))

    def kind_asked(*, deployment: Deployment) -> bool:
        assert len(answers) == 2, f"{deployment} restarts: it cannot be asked for its kind now"
        return True

    monkeypatch.setattr(steps_restore, "rotation_return", only_by_restart)
    monkeypatch.setattr(steps_restore, "return_needs_a_hand", kind_asked)
    step_approve(person=commander, step=restore)
    run_advance(run_pk=run.pk)
    restore.refresh_from_db()
    assert (restore.state, restore.progress) == (
        StepState.RUNNING,
        "restart it with these workers",
    )
    worker = worker_from(deployment.taken_out.filter(put_back_at=None)[0].worker)
    worker_enter(deployment=deployment, worker=worker)
    look_and_pull()
    assert status_of(run) == Status.MITIGATED, "they were wanted back"
    tell = work_off(run)
    assert (tell.key, status_of(run)) == ("tell", Status.RESTORED), tell.outcome
