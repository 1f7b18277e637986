"""What workers do to runs: claim a step, advance it once, record where it stands."""

from __future__ import annotations

import logging

from django.db import transaction

from common.clock import now
from common.heartbeat import Heartbeat
from common.leases import owner_name
from common.registry import UnknownKey
from incidents.contract import IncidentError, Source
from incidents.services import event_record
from runbooks.contract import STEPS, Standing, Step, StepError, Work
from runbooks.models import Run, RunState, RunStep, StepState
from runbooks.services import step_offer_next

log = logging.getLogger(__name__)

#: States in which a worker has something to do.
LIVE = (StepState.READY, StepState.RUNNING)


def run_advance(*, run_pk: int) -> bool:
    """Advance the live step of a run once; answers whether another step became ready by it.

    A later one waits while an earlier one was reopened: containment comes before all else.
    """
    step = RunStep.objects.filter(run_id=run_pk).exclude(state=StepState.DONE).first()
    if step is None or step.state not in LIVE:
        return False
    owner = owner_name()
    rows = RunStep.objects.filter(state__in=LIVE)
    if not rows.claim(step.pk, owner=owner):
        return False
    try:
        with Heartbeat(RunStep.objects.all(), step.pk, owner=owner):
            _advance_claimed(step.pk)
    finally:
        RunStep.objects.all().release(step.pk, owner=owner)
    return RunStep.objects.filter(run_id=run_pk, state=StepState.READY).exists()


def _advance_claimed(pk: int) -> None:
    step = RunStep.objects.select_related("run__incident__deployment").get(pk=pk)
    if step.state == StepState.READY:
        step.state = StepState.RUNNING
        step.save(update_fields=["state"])
    work = Work(
        step=step,
        run=step.run,
        incident=step.run.incident,
        deployment=step.run.incident.deployment,
    )
    failure = step.memory.get("failing") or _overrun(step) or _advance_once(work)
    if failure:
        work.remember(failing=failure)
        _undo(work, failure)


def _overrun(step: RunStep) -> str:
    if step.deadline_at is None or step.deadline_at > now():
        return ""
    minutes = step.settings["deadline_s"] // 60
    doing = f" while: {step.progress}" if step.progress else ""
    return f"not finished within {minutes} min{doing}"


def _advance_once(work: Work) -> str:
    """Advance, and answer why it failed, or nothing."""
    try:
        advance = _kind_of(work).advance(work)
    except (StepError, IncidentError, UnknownKey) as error:
        return str(error)
    except Exception:
        log.exception("step %s of run %s raised", work.step.key, work.run.pk)
        return "Pagewarden itself failed at this step; the worker's log has the details"
    if advance.standing is Standing.AGAIN:
        work.report(advance.text)
    else:
        _step_end(work, StepState.DONE, advance.text)
    return ""


def _kind_of(work: Work) -> Step:
    return STEPS.get(work.step.key)


def _undo(work: Work, failure: str) -> None:
    """Take the effect back; where that fails too, the tick comes again until it holds."""
    try:
        _kind_of(work).undo(work)
    except UnknownKey:
        pass
    except StepError as error:
        work.report(f"failed ({failure}); taking it back fails too, trying again: {error}")
        return
    except Exception:
        log.exception("undo of step %s of run %s raised", work.step.key, work.run.pk)
        work.report(f"failed ({failure}); taking it back fails too, trying again")
        return
    _step_end(work, StepState.FAILED, failure)


@transaction.atomic
def _step_end(work: Work, state: StepState, text: str) -> None:
    step = RunStep.objects.select_for_update().get(pk=work.step.pk)
    if step.state not in LIVE:
        return
    step.state = state
    step.outcome = text
    step.progress = ""
    step.ended_at = now()
    step.save(update_fields=["state", "outcome", "progress", "ended_at"])
    word = "Done" if state == StepState.DONE else "Failed"
    event_record(
        incident=work.incident,
        source=Source.RUN,
        actor=work.actor,
        kind=f"step_{state.value}",
        text=f"{word}: {step.title}. {text}",
        body={"run": step.run_id, "step": step.key, "position": step.position},
    )
    if state == StepState.DONE:
        step_offer_next(step.run)
    else:
        Run.objects.filter(pk=step.run_id).update(state=RunState.FAILED)
