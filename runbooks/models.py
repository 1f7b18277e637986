"""Runs of a runbook with their own snapshot of its steps, and the approvals they wait for."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from common.clock import now
from common.leases import Leased, LeasedQuerySet
from incidents.models import Incident


class RunState(models.TextChoices):
    """Where a run stands."""

    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"


class StepState(models.TextChoices):
    """Where a step stands. ``waiting`` waits for a person, ``ready`` for a worker."""

    PENDING = "pending"
    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Run(models.Model):
    """One execution of a runbook version for one incident."""

    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="runs")
    book = models.CharField(max_length=60)
    version = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.ACTIVE)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    started_at = models.DateTimeField(default=now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-started_at", "-pk")
        constraints = (
            models.UniqueConstraint(
                fields=("incident",),
                condition=models.Q(state="active"),
                name="one_active_run_per_incident",
            ),
        )

    def __str__(self) -> str:
        return f"run {self.pk} of {self.incident}"


class StepQuerySet(LeasedQuerySet["RunStep"]):
    """Claims steps."""


class RunStep(Leased):
    """One step of a run, frozen at its start.

    ``memory`` holds what an act needs to be safe to repeat (the audit it started, the failure it
    is undoing): written before the act. ``outcome`` says what the check saw, ``progress`` in one
    line what it does now. ``tries`` counts how often people tried it again.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="steps")
    position = models.PositiveIntegerField()
    key = models.CharField(max_length=60)
    title = models.CharField(max_length=200)
    settings = models.JSONField(default=dict)
    needs_approval = models.BooleanField(default=False)
    needs_start = models.BooleanField(default=False)
    state = models.CharField(
        max_length=10, choices=StepState.choices, default=StepState.PENDING, db_index=True
    )
    tries = models.PositiveIntegerField(default=0)
    memory = models.JSONField(default=dict)
    progress = models.CharField(max_length=300, blank=True)
    outcome = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = StepQuerySet.as_manager()

    class Meta:
        ordering = ("run", "position")
        constraints = (
            models.UniqueConstraint(fields=("run", "position"), name="one_step_per_position"),
        )

    def __str__(self) -> str:
        return f"{self.title} of {self.run}"


class Approval(models.Model):
    """A second person's yes to one try of a step, given before it acts; append-only."""

    step = models.ForeignKey(RunStep, on_delete=models.PROTECT, related_name="approvals")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    attempt = models.PositiveIntegerField(default=0)
    comment = models.CharField(max_length=500, blank=True)
    given_at = models.DateTimeField(default=now)

    class Meta:
        ordering = ("given_at",)
        constraints = (
            models.UniqueConstraint(fields=("step", "by", "attempt"), name="one_approval_each"),
        )

    def __str__(self) -> str:
        return f"{self.by} approves {self.step}"
