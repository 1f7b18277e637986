"""What the tick does for this floor: wakes a worker for every run that has something to do."""

from __future__ import annotations

from common.queue import after_commit
from common.tick import on_tick
from runbooks.advance import LIVE
from runbooks.models import RunStep
from runbooks.reopening import containment_reopen, runs_uncontained
from runbooks.tasks import advance_run


@on_tick
def wake_runs() -> None:
    """Queue every run whose live step nobody holds."""
    for step in RunStep.objects.free().filter(state__in=LIVE).select_related("run"):
        after_commit(advance_run, step.run_id)


@on_tick
def reopen_containments() -> None:
    """Reopen the containing step of every run whose workers are listed again."""
    for run in runs_uncontained():
        containment_reopen(run=run)
