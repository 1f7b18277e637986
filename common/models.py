"""Rows that no floor of the trade owns: which workers live, and the audit trail of people."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

from django.db import models

from common.clock import now

#: A worker that has not beaten for this long counts as down.
BEAT_FRESH_FOR = timedelta(seconds=15)


class WorkerBeat(models.Model):
    """The last sign of life of one worker process."""

    name = models.CharField(max_length=120, unique=True)
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def beat(cls) -> None:
        """Record that this process lives, and forget those long dead."""
        name = f"{socket.gethostname()[:60]}:{os.getpid()}"
        cls.objects.update_or_create(name=name, defaults={"beaten_at": now()})
        cls.objects.filter(beaten_at__lt=now() - timedelta(hours=1)).delete()

    @classmethod
    def is_any_alive(cls) -> bool:
        """Answer whether a worker has beaten lately."""
        return cls.objects.filter(beaten_at__gt=now() - BEAT_FRESH_FOR).exists()


class AuditTrail(models.Model):
    """What a person did, and to what; append-only, without keys, prompts or answers."""

    at = models.DateTimeField(default=now, db_index=True)
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=80)
    subject = models.CharField(max_length=200)
    details = models.JSONField(default=dict)

    class Meta:
        ordering = ("-at", "-pk")

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.subject}"
