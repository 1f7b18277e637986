"""Reopens the containment of a run whose workers are listed again, for a person to start anew."""

from __future__ import annotations

from django.db import transaction

from common.clock import now
from fleet.rotation_rows import RotationWatch
from incidents.contract import Source, Status
from incidents.services import event_record
from runbooks.models import Run, RunState, RunStep, StepState

#: The step that takes workers out, and that can be done again without harm.
CONTAINING = "disable"
ACTOR = "router watch"


def runs_uncontained() -> list[Run]:
    """Answer the newest run of each incident that lost its containment, if it may go on."""
    broken = RotationWatch.objects.exclude(listed=[]).values("deployment")
    runs = Run.objects.filter(
        incident__deployment__in=broken,
        incident__status=Status.DECLARED,
        state__in=[RunState.ACTIVE, RunState.FAILED],
    )
    return list(runs.order_by("incident_id", "-started_at", "-pk").distinct("incident_id"))


@transaction.atomic
def containment_reopen(*, run: Run) -> bool:
    """Hand the done step that took the workers out to a person again; answers whether it was so.

    Steps after it wait until it is done again: nothing is restored on a broken containment.
    """
    step = (
        RunStep.objects.select_for_update(of=("self",))
        .select_related("run__incident__deployment")
        .filter(run=run, key=CONTAINING, state=StepState.DONE)
        .first()
    )
    if step is None:
        return False
    watch = RotationWatch.objects.get(deployment=step.run.incident.deployment_id)
    step.state = StepState.WAITING
    step.tries += 1
    step.memory = {}
    step.ended_at = step.deadline_at = None
    step.outcome = (
        f"The router lists {', '.join(watch.listed)} again since "
        f"{watch.listed_since_at or now():%H:%M:%S} UTC: start this step again to take it out, and "
        "stop what puts it back"
    )
    step.save()
    event_record(
        incident=step.run.incident,
        source=Source.SYSTEM,
        actor=ACTOR,
        kind="step_reopened",
        text=f"To be done again: {step.title}. {step.outcome}",
        body={"run": step.run_id, "step": step.key, "position": step.position},
    )
    return True
