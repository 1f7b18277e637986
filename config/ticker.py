"""A thread in each worker that runs the tick, so that a dead scheduler stops nothing."""

from __future__ import annotations

import logging
import threading

from django.db import close_old_connections, connection

from common.models import WorkerBeat
from common.tick import run_tick

log = logging.getLogger(__name__)


class Ticker:
    """Runs the tick every ``every_s`` seconds until stopped; a failing tick is only logged."""

    def __init__(self, *, every_s: float) -> None:
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tick", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after the present tick."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            close_old_connections()
            try:
                WorkerBeat.beat()
                run_tick()
            except Exception:
                log.exception("the tick failed; it runs again in %s s", self._every_s)
                connection.close()
