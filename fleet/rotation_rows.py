"""What looks at routers found of workers that must stay out of them."""

from __future__ import annotations

from django.db import models

from common.leases import Leased, LeasedQuerySet


class RotationWatchQuerySet(LeasedQuerySet["RotationWatch"]):
    """Claims watches."""


class RotationWatch(Leased):
    """What looks at a deployment's router found of workers that must stay out of it.

    Columns as in fleet/staying_out.py; ``looked_at`` is the last look, ``acted_at`` when Pagewarden
    last changed the list itself: what a look from before that saw no longer counts.
    """

    deployment = models.OneToOneField(
        "fleet.Deployment", on_delete=models.CASCADE, related_name="rotation_watch"
    )
    looked_at = models.DateTimeField(null=True, blank=True)
    acted_at = models.DateTimeField(null=True, blank=True)
    listed = models.JSONField(default=list, blank=True)
    listed_since_at = models.DateTimeField(null=True, blank=True)
    gone_since_at = models.DateTimeField(null=True, blank=True)
    read_at = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=500, blank=True)
    problem_since_at = models.DateTimeField(null=True, blank=True)
    is_problem_told = models.BooleanField(default=False)

    objects = RotationWatchQuerySet.as_manager()

    def __str__(self) -> str:
        return f"watch of {self.deployment}"

    @property
    def knows_all_is_out(self) -> bool:
        """Answer whether the looks so far leave no doubt that what was taken out stays out."""
        return not self.listed and not self.is_problem_told


class RotationChange(models.Model):
    """One thing that a look at a router found changed while workers must stay out of it.

    ``since_at`` is the earliest moment from which it may have been so. The floor above tells each
    once, in the order of their keys.
    """

    deployment = models.ForeignKey(
        "fleet.Deployment", on_delete=models.PROTECT, related_name="rotation_changes"
    )
    at = models.DateTimeField()
    since_at = models.DateTimeField()
    kind = models.CharField(max_length=20)
    text = models.TextField()
    urls = models.JSONField(default=list)

    class Meta:
        ordering = ("deployment", "pk")

    def __str__(self) -> str:
        return f"{self.kind} of {self.deployment}"
