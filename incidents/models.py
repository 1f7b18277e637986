"""Incidents, their append-only timelines, evidence and the findings they hold."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models

from common.chain import GENESIS
from common.clock import now
from common.sealing import Sealed
from fleet.models import Deployment
from incidents.contract import Source, Status
from probes.models import KINDS, Audit, Finding

if TYPE_CHECKING:
    pass

STATUSES = [(status.value, status.value) for status in Status]
SOURCES = [(source.value, source.value) for source in Source]
#: Statuses in which somebody still has something to do.
OPEN_STATUSES = [status.value for status in Status if status is not Status.CLOSED]


class Incident(models.Model):
    """Something wrong with one deployment, restricted to its roles from the start.

    Moments are None until they happen. ``impact_start_at`` with ``impact_basis`` is the earliest
    moment from which requests may have been hit, and how that is known. ``head_sequence`` and
    ``head_digest`` are the last link of the timeline's chain, so that a cut-off end shows.
    ``rotation_told`` is the key of the last change of its router that the timeline tells.
    """

    year = models.PositiveSmallIntegerField()
    number = models.PositiveIntegerField()
    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="incidents")
    title = models.CharField(max_length=200)
    kind = models.CharField(max_length=20, choices=KINDS)
    status = models.CharField(max_length=12, choices=STATUSES, default=Status.TRIAGE)
    is_restricted = models.BooleanField(default=True)
    commander = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    findings = models.ManyToManyField(Finding, related_name="incidents", blank=True)
    opened_at = models.DateTimeField(default=now)
    impact_start_at = models.DateTimeField(null=True, blank=True)
    impact_end_at = models.DateTimeField(null=True, blank=True)
    impact_basis = models.CharField(max_length=300, blank=True)
    detected_at = models.DateTimeField(null=True, blank=True)
    declared_at = models.DateTimeField(null=True, blank=True)
    contained_at = models.DateTimeField(null=True, blank=True)
    mitigated_at = models.DateTimeField(null=True, blank=True)
    restored_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    head_sequence = models.PositiveIntegerField(default=0)
    head_digest = models.CharField(max_length=64, default=GENESIS)
    rotation_told = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("-year", "-number")
        constraints = (
            models.UniqueConstraint(fields=("year", "number"), name="incident_number_once"),
            models.UniqueConstraint(
                fields=("deployment",),
                condition=models.Q(status__in=OPEN_STATUSES),
                name="one_open_incident_per_deployment",
            ),
        )

    def __str__(self) -> str:
        return self.reference

    @property
    def reference(self) -> str:
        """Answer the name people use, such as INC-2026-0007."""
        return f"INC-{self.year}-{self.number:04d}"

    @property
    def is_open(self) -> bool:
        """Answer whether somebody still has something to do."""
        return self.status in OPEN_STATUSES


class TimelineEvent(models.Model):
    """One entry of a timeline: append-only, chained by hash over a digest of its body.

    A correction is a new entry that names the one it supersedes.
    """

    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="events")
    sequence = models.PositiveIntegerField()
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField(default=now)
    source = models.CharField(max_length=10, choices=SOURCES)
    actor = models.CharField(max_length=150)
    kind = models.CharField(max_length=40)
    text = models.TextField()
    body = models.JSONField(default=dict)
    supersedes = models.PositiveIntegerField(null=True, blank=True)
    body_digest = models.CharField(max_length=64)
    previous = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)

    class Meta:
        ordering = ("incident", "sequence")
        constraints = (
            models.UniqueConstraint(fields=("incident", "sequence"), name="one_event_per_sequence"),
        )

    def __str__(self) -> str:
        return f"{self.incident} #{self.sequence}"


class PulledAudit(models.Model):
    """An audit whose end stands in an incident's timeline, so that it is told exactly once."""

    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="pulled_audits")
    audit = models.ForeignKey(Audit, on_delete=models.PROTECT, related_name="+")
    pulled_at = models.DateTimeField(default=now)

    class Meta:
        ordering = ("incident", "audit")
        constraints = (
            models.UniqueConstraint(fields=("incident", "audit"), name="audit_pulled_once"),
        )

    def __str__(self) -> str:
        return f"{self.audit} in {self.incident}"


class Evidence(models.Model):
    """A document kept as proof, sealed; its hash and size stand open."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="evidence")
    number = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveIntegerField()
    taken_at = models.DateTimeField(default=now)
    sealed_document = models.BinaryField()

    document = Sealed("sealed_document")

    class Meta:
        ordering = ("incident", "number")
        constraints = (
            models.UniqueConstraint(fields=("incident", "number"), name="one_evidence_per_number"),
        )

    def __str__(self) -> str:
        return f"E-{self.number:04d} of {self.incident}"
