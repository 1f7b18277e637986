"""Work that must survive a crash: a row with a lease, claimed by compare-and-set."""

from __future__ import annotations

import os
import socket
import threading
from datetime import datetime, timedelta
from typing import Self, TypeVar

from django.db import models
from django.db.models import F, Q

from common.clock import now

#: How long a claim holds without a heartbeat; a killed worker's row is free again after it.
LEASE_LASTS = timedelta(seconds=20)
#: How often the holder renews: several times within a lease, so that one late renewal is no loss.
HEARTBEAT_EVERY_S = 5.0


class LeaseLost(Exception):
    """Another worker holds the row, or its time is up: stop without touching anything more."""


LeasedT = TypeVar("LeasedT", bound="Leased")


class LeasedQuerySet(models.QuerySet[LeasedT]):
    """Claims rows; every change of a lease is one conditional UPDATE."""

    def free(self, moment: datetime | None = None) -> Self:
        """Answer the rows that nobody holds at this moment."""
        return self.filter(Q(lease_until=None) | Q(lease_until__lt=moment or now()))

    def claim(self, pk: int, *, owner: str) -> bool:
        """Take the lease of one row; answers whether this caller got it."""
        claimed = (
            self.free()
            .filter(pk=pk)
            .update(lease_owner=owner, lease_until=now() + LEASE_LASTS, attempts=F("attempts") + 1)
        )
        return claimed == 1

    def renew(self, pk: int, *, owner: str) -> bool:
        """Hold the lease for longer; answers whether it was still held."""
        return self.filter(pk=pk, lease_owner=owner).update(lease_until=now() + LEASE_LASTS) == 1

    def release(self, pk: int, *, owner: str) -> None:
        """Give the lease back."""
        self.filter(pk=pk, lease_owner=owner).update(lease_owner="", lease_until=None)


class Leased(models.Model):
    """Columns of a leased row. ``deadline_at`` ends it, whoever holds it."""

    lease_owner = models.CharField(max_length=120, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    deadline_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


def owner_name() -> str:
    """Answer a name for this worker's thread that no other living thread has."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{threading.get_ident()}"
