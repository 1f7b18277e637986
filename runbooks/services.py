"""What people do to runs: start, approve, confirm, retry, abort; every door comes through here."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction

from common.clock import now
from common.roles import Role, require_role
from common.trail import record
from fleet.taking_out import rotation_keep_out
from incidents.contract import Source, Status
from incidents.models import Incident
from incidents.services import event_record
from runbooks.contract import BOOKS, RunError, StepPlan
from runbooks.models import Approval, Run, RunState, RunStep, StepState

#: Statuses in which a run makes sense: declared, and anything a failed run left behind.
_RUNNABLE = {Status.DECLARED, Status.CONTAINED, Status.MITIGATED}


@transaction.atomic
def run_start(*, person: User, incident: Incident, book: str) -> Run:
    """Start a run with its own snapshot of the steps. Raises NotAllowed, RunError, UnknownKey."""
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="start a run")
    incident = Incident.objects.select_for_update().get(pk=incident.pk)
    if Status(incident.status) not in _RUNNABLE:
        raise RunError(f"{incident} is {incident.status}: declare it before a run starts")
    if incident.runs.filter(state=RunState.ACTIVE).exists():
        raise RunError(f"{incident} has an active run already")
    runbook = BOOKS.get(book).runbook()
    run = Run.objects.create(
        incident=incident,
        book=runbook.key,
        version=runbook.version,
        title=runbook.title,
        started_by=person,
    )
    for position, plan in enumerate(runbook.steps, start=1):
        _snapshot(run, position, plan)
    event_record(
        incident=incident,
        source=Source.RUN,
        actor=person.get_username(),
        kind="run_started",
        text=f"Run started: {runbook.title}, version {runbook.version}",
        body={"run": run.pk, "book": runbook.key, "version": runbook.version},
    )
    step_offer_next(run)
    return run


def _snapshot(run: Run, position: int, plan: StepPlan) -> RunStep:
    return RunStep.objects.create(
        run=run,
        position=position,
        key=plan.key,
        title=plan.title,
        needs_start=plan.needs_start,
        needs_approval=plan.needs_approval,
        settings={
            **plan.settings,
            "what": plan.what,
            "if_it_fails": plan.if_it_fails,
            "is_manual": plan.is_manual,
            "deadline_s": int(plan.deadline.total_seconds()),
        },
    )


def step_offer_next(run: Run) -> None:
    """Hand the first step that is not done to a person or to a worker; end the run after the last.

    The caller holds a transaction, and wakes a worker once it is committed.
    """
    step = run.steps.select_for_update().exclude(state=StepState.DONE).first()
    if step is None:
        _run_end(run, RunState.DONE)
        return
    if step.state != StepState.PENDING:
        return
    if step.needs_start or step.needs_approval or step.settings.get("is_manual"):
        step.state = StepState.WAITING
        step.save(update_fields=["state"])
        return
    _make_ready(step)


def _make_ready(step: RunStep) -> None:
    """Give a step to the workers; its deadline runs from now."""
    step.state = StepState.READY
    step.outcome = ""
    step.started_at = now()
    step.ended_at = None
    step.deadline_at = step.started_at + timedelta(seconds=step.settings["deadline_s"])
    step.save(update_fields=["state", "outcome", "started_at", "ended_at", "deadline_at"])


def step_start(*, person: User, step: RunStep) -> None:
    """Let a step that waits for a person's start act. Raises NotAllowed, RunError."""
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="start a step")
    with transaction.atomic():
        step = _locked(step, StepState.WAITING)
        if step.needs_approval or step.settings.get("is_manual"):
            raise RunError(f"“{step.title}” waits for an approval or a confirmation, not a start")
        _note(step, person, f"Started: {step.title}", kind="step_started")
        _make_ready(step)


def step_approve(*, person: User, step: RunStep, comment: str = "") -> None:
    """Give the second person's yes, after which the step acts. Raises NotAllowed, RunError."""
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="approve a step")
    with transaction.atomic():
        step = _locked(step, StepState.WAITING)
        if not step.needs_approval:
            raise RunError(f"“{step.title}” needs no approval")
        if person.pk == step.run.started_by_id:
            raise RunError(
                f"{person} started this run: “{step.title}” needs the yes of a second person"
            )
        Approval.objects.create(
            step=step, by=person, attempt=step.tries, comment=comment.strip()[:500]
        )
        _note(step, person, f"Approved: {step.title}", kind="step_approved", comment=comment)
        _make_ready(step)


def step_confirm(*, person: User, step: RunStep, note: str) -> None:
    """Record that a person did a manual step. Raises NotAllowed, RunError."""
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="confirm a step")
    if not note.strip():
        raise RunError("say in a sentence what was done and who was told")
    with transaction.atomic():
        step = _locked(step, StepState.WAITING)
        if not step.settings.get("is_manual"):
            raise RunError(f"“{step.title}” is proved by a check, not by a person's word")
        moment = now()
        step.state = StepState.DONE
        step.started_at = step.started_at or moment
        step.ended_at = moment
        step.outcome = note.strip()
        step.save(update_fields=["state", "started_at", "ended_at", "outcome"])
        _note(step, person, f"Done: {step.title}. {note.strip()}", kind="step_done")
        step_offer_next(step.run)


def step_retry(*, person: User, step: RunStep) -> None:
    """Try a failed step again; one that needs a second person needs that yes anew.

    Raises NotAllowed, RunError.
    """
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="retry a step")
    with transaction.atomic():
        step = _locked(step, StepState.FAILED)
        Run.objects.filter(pk=step.run_id).update(state=RunState.ACTIVE, ended_at=None)
        step.tries += 1
        step.memory = {}
        step.outcome = step.progress = ""
        step.state = StepState.PENDING
        step.save(update_fields=["tries", "memory", "outcome", "progress", "state"])
        _note(step, person, f"Tried again: {step.title}", kind="step_retried")
        step_offer_next(step.run)


def run_abort(*, person: User, run: Run, reason: str) -> None:
    """End a run where it stands; what it took out of rotation stays out.

    Raises NotAllowed, RunError.
    """
    require_role(person, Role.COMMANDER, to="abort a run")
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=run.pk)
        if run.state not in {RunState.ACTIVE, RunState.FAILED}:
            raise RunError(f"{run} is over")
        run.steps.exclude(state=StepState.DONE).update(
            state=StepState.FAILED, lease_until=None, lease_owner="", ended_at=now()
        )
        _run_end(run, RunState.ABORTED)
        rotation_keep_out(deployment=run.incident.deployment)
        event_record(
            incident=run.incident,
            source=Source.RUN,
            actor=person.get_username(),
            kind="run_aborted",
            text=f"Run aborted: {reason.strip() or 'no reason given'}. What is out stays out.",
            body={"run": run.pk},
        )


def _run_end(run: Run, state: RunState) -> None:
    run.state = state
    run.ended_at = now()
    run.save(update_fields=["state", "ended_at"])


def _locked(step: RunStep, wanted: StepState) -> RunStep:
    step = RunStep.objects.select_for_update().select_related("run__incident").get(pk=step.pk)
    if step.state != wanted:
        raise RunError(f"“{step.title}” is {step.state} by now: look at the run again")
    return step


def _note(step: RunStep, person: User, text: str, *, kind: str, comment: str = "") -> None:
    body = {"run": step.run_id, "step": step.key, "position": step.position}
    event_record(
        incident=step.run.incident,
        source=Source.RUN,
        actor=person.get_username(),
        kind=kind,
        text=text,
        body={**body, "comment": comment} if comment else body,
    )
    record(actor=person.get_username(), action=kind, subject=str(step))
