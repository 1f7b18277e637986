"""Celery doors of this floor: ids in, one service call each."""

from __future__ import annotations

from celery import shared_task

from common.queue import after_commit
from runbooks.advance import run_advance


@shared_task(name="runbooks.advance_run")
def advance_run(run_pk: int) -> None:
    """Advance a run's live step, and come again at once when that made the next one ready."""
    if run_advance(run_pk=run_pk):
        after_commit(advance_run, run_pk)
