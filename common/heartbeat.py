"""Renews a lease from a thread of its own while its holder works."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

from django.db import connection

from common.leases import HEARTBEAT_EVERY_S, LeasedQuerySet


class Heartbeat:
    """Context manager that keeps a lease; ``is_lost`` tells when another took it.

    Usage: ``with Heartbeat(Audit.objects.all(), pk, owner=owner) as heartbeat: ...``
    """

    def __init__(self, rows: LeasedQuerySet[Any], pk: int, *, owner: str) -> None:
        self._rows = rows
        self._pk = pk
        self._owner = owner
        self._stopped = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat {pk}", daemon=True)

    @property
    def is_lost(self) -> bool:
        """Answer whether the lease went to somebody else."""
        return self._lost.is_set()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(HEARTBEAT_EVERY_S):
                if not self._rows.all().renew(self._pk, owner=self._owner):
                    self._lost.set()
                    return
        finally:
            connection.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()
