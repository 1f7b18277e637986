"""The one way to wake a worker: after the commit, ids only, and a dead broker loses nothing."""

from __future__ import annotations

import logging

from celery import Task
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def after_commit(task: Task[..., None], pk: int) -> None:
    """Send a task the id of a row once that row is committed.

    Where the broker does not take it, the tick finds the row by its state.
    """

    def send() -> None:
        try:
            task.apply_async((pk,), retry=False)
        except OperationalError:
            log.warning("broker down: %s %s waits for the tick", task.name, pk)

    transaction.on_commit(send)
