"""Work at a router that a person asked for, as rows that workers hold."""

from __future__ import annotations

from django.db import models

from common.clock import now
from common.leases import Leased, LeasedQuerySet


class JobKind(models.TextChoices):
    """What is asked for."""

    JOIN = "join", "let a node in"
    TAKE_OUT = "take_out", "take out again"


class JobState(models.TextChoices):
    """Where a job stands. ``refused`` ended without what was asked for."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"


#: States in which a worker has something to do.
LIVE_JOBS = (JobState.QUEUED, JobState.RUNNING)


class RouterJobQuerySet(LeasedQuerySet["RouterJob"]):
    """Claims jobs."""


class RouterJob(Leased):
    """One act at a deployment's router, one at a time; ``node`` is whom a join is about.

    ``entering_at`` stands from just before the router is told to take the node in until its join
    has come to an end: a worker that finds it set takes the node out before anything else. Some
    routers carry out an order late; until ``watched_until`` a refused node is looked for.
    """

    deployment = models.ForeignKey(
        "fleet.Deployment", on_delete=models.PROTECT, related_name="router_jobs"
    )
    node = models.ForeignKey(
        "fleet.Node", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    kind = models.CharField(max_length=10, choices=JobKind.choices)
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.QUEUED)
    requested_by = models.CharField(max_length=150)
    progress = models.CharField(max_length=300, blank=True)
    outcome = models.TextField(blank=True)
    queued_at = models.DateTimeField(default=now)
    started_at = models.DateTimeField(null=True, blank=True)
    entering_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    watched_until = models.DateTimeField(null=True, blank=True)
    looked_at = models.DateTimeField(null=True, blank=True)

    objects = RouterJobQuerySet.as_manager()

    class Meta:
        ordering = ("-queued_at", "-pk")
        constraints = (
            models.UniqueConstraint(
                fields=("deployment",),
                condition=models.Q(state__in=["queued", "running"]),
                name="one_router_job_at_a_time",
            ),
        )

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.node or self.deployment}"

    @property
    def is_over(self) -> bool:
        """Answer whether nothing more will happen to it."""
        return self.state not in LIVE_JOBS
