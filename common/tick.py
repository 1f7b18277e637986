"""The tick: what is due, run by every worker's timer, by one at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import connection, transaction

log = logging.getLogger(__name__)

#: Advisory lock of the tick; any fixed number that nothing else in the database uses.
_LOCK = 7_205_759_403

Sweep = Callable[[], None]
_sweeps: dict[str, Sweep] = {}


def on_tick(sweep: Sweep) -> Sweep:
    """Decorate a function that each tick calls; it must be short and safe to repeat."""
    _sweeps[f"{sweep.__module__}.{sweep.__qualname__}"] = sweep
    return sweep


def run_tick() -> bool:
    """Run every sweep once; answers False where another process is at it.

    A sweep that fails is logged and does not keep the others from running.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        row = cursor.fetchone()
        if not row or not row[0]:
            return False
        for name, sweep in sorted(_sweeps.items()):
            try:
                with transaction.atomic():
                    sweep()
            except Exception:
                log.exception("sweep %s failed", name)
    return True
