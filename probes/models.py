"""Audits, their checks and canary rows, proofs, acceptances and findings."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.fields.json import KeyTextTransform

from common.clock import now
from common.leases import Leased, LeasedQuerySet
from common.sealing import Sealed
from common.verdicts import Verdict
from fleet.models import Deployment, NodeReading
from probes import job_rows  # noqa: F401 - so that Django finds the models of that module
from probes.judgement import SECURITY_KINDS, Kind

VERDICTS = [(verdict.value, verdict.value.replace("_", " ")) for verdict in Verdict]
KINDS = [(kind.value, kind.value.replace("_", " ")) for kind in Kind]


class Acceptance(models.Model):
    """A named person's word that a round on an exposed pair is wanted.

    Good for one round and these fingerprints, never for a schedule (design, "What opens an
    incident").
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="+")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    reason = models.CharField(max_length=500)
    fingerprints = models.JSONField()
    given_at = models.DateTimeField(default=now)

    def __str__(self) -> str:
        return f"{self.by} accepts {self.deployment}: {self.reason}"


class AuditState(models.TextChoices):
    """Where an audit stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"


class Way(models.TextChoices):
    """How the canary of an audit speaks to the engines; without one only gates run."""

    NONE = "none", "gates only"
    ROUTER = "router", "through the router"
    PAIR = "pair", "by pair client, out of rotation"


class AuditQuerySet(LeasedQuerySet["Audit"]):
    """Claims audits."""


class Audit(Leased):
    """One run of gates and canaries over a deployment.

    ``progress`` is {done, total, label}; ``cost_tokens`` what the rounds really sent and asked;
    ``rounds`` their heads (probes/canary/heads.py), while one runs its number, plan and target.
    ``is_cordoning`` takes the deployment out of its router before the rounds; it goes back only
    when they pass.
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="audits")
    state = models.CharField(
        max_length=10, choices=AuditState.choices, default=AuditState.QUEUED, db_index=True
    )
    trigger = models.CharField(max_length=20, default="person")
    requested_by = models.CharField(max_length=150)
    way = models.CharField(max_length=10, choices=Way.choices, default=Way.ROUTER)
    plans = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    seeds = ArrayField(models.BigIntegerField(), default=list, blank=True)
    is_cordoning = models.BooleanField(default=False)
    acceptance = models.OneToOneField(
        Acceptance, on_delete=models.PROTECT, null=True, blank=True, related_name="audit"
    )
    verdict = models.CharField(max_length=15, choices=VERDICTS, blank=True)
    headline = models.CharField(max_length=500, blank=True)
    problem = models.CharField(max_length=500, blank=True)
    progress = models.JSONField(default=dict)
    cost_tokens = models.PositiveIntegerField(default=0)
    rounds = models.JSONField(default=list, db_default=[])
    skipped = models.JSONField(default=list)
    queued_at = models.DateTimeField(default=now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ("-queued_at", "-pk")

    def __str__(self) -> str:
        return f"audit {self.pk} of {self.deployment}"

    @property
    def is_over(self) -> bool:
        """Answer whether nothing more will happen to it."""
        return self.state in {AuditState.DONE, AuditState.STOPPED}


class AuditReading(models.Model):
    """Which reading an audit rests on, before or after its rounds."""

    audit = models.ForeignKey(Audit, on_delete=models.CASCADE, related_name="audit_readings")
    reading = models.ForeignKey(NodeReading, on_delete=models.PROTECT, related_name="+")
    is_after = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.reading} in {self.audit}"


class AuditCheck(models.Model):
    """One verdict of an audit about one target, with its figures."""

    audit = models.ForeignKey(Audit, on_delete=models.CASCADE, related_name="checks")
    check_name = models.CharField(max_length=80)
    target = models.CharField(max_length=200)
    verdict = models.CharField(max_length=15, choices=VERDICTS)
    required = models.BooleanField()
    kind = models.CharField(max_length=20, choices=KINDS)
    reason = models.TextField()
    figures = models.JSONField(default=dict)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"{self.check_name} of {self.target}: {self.verdict}"


class CanaryRow(models.Model):
    """One request of a round: what was sent, what came back; the answer itself is sealed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    audit = models.ForeignKey(Audit, on_delete=models.CASCADE, related_name="rows")
    round_number = models.PositiveIntegerField()
    position = models.PositiveIntegerField()
    document = models.JSONField()
    sealed_answer = models.BinaryField(default=bytes)

    answer = Sealed("sealed_answer")

    class Meta:
        ordering = ("audit", "round_number", "position")
        indexes = (
            # A marker in a text from anywhere names its request, and nothing else of the row.
            models.Index(KeyTextTransform("request", "document"), name="row_by_request"),
        )

    def __str__(self) -> str:
        return f"row {self.position} of round {self.round_number} of {self.audit}"


class MarkerSecret(models.Model):
    """The key of the markers of one deployment's tenants, kept for as long as any may turn up.

    It follows from the tenants' keys, so it changes with them; what an earlier one planted is still
    to be known. ``digest`` is the SHA-256 of the secret.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    deployment = models.ForeignKey(
        Deployment, on_delete=models.PROTECT, related_name="marker_secrets"
    )
    digest = models.CharField(max_length=64)
    sealed_secret = models.BinaryField()
    tenants = models.JSONField(default=dict)
    first_used_at = models.DateTimeField(default=now)
    last_used_at = models.DateTimeField(default=now)

    secret = Sealed("sealed_secret")

    class Meta:
        ordering = ("-last_used_at",)
        constraints = (
            models.UniqueConstraint(fields=("deployment", "digest"), name="one_row_a_secret"),
        )

    def __str__(self) -> str:
        return f"marker key of {self.deployment}"


class Proof(models.Model):
    """A pass bound to the fingerprint of each node; drift, a restart or time voids it.

    ``bundle`` is the same as a signed envelope, for those who are not here; empty where no key
    was set when it was granted.
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="proofs")
    audit = models.OneToOneField(Audit, on_delete=models.PROTECT, related_name="proof")
    fingerprints = models.JSONField()
    granted_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField()
    voided_at = models.DateTimeField(null=True, blank=True)
    void_reason = models.CharField(max_length=500, blank=True)
    bundle = models.TextField(blank=True, default="", db_default="")

    class Meta:
        ordering = ("-granted_at", "-pk")

    def __str__(self) -> str:
        return f"proof of {self.deployment} by {self.audit}"

    @property
    def is_standing(self) -> bool:
        """Answer whether the proof still opens a door."""
        return self.voided_at is None and self.expires_at > now()


class Finding(models.Model):
    """A failing check of a deployment, from the audit that first saw it to the one that cleared it.

    ``remedies`` are ways to close it, as published beside the judgement. Security kinds found by a
    canary are pulled into an incident by the floor above.
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="findings")
    check_name = models.CharField(max_length=80)
    target = models.CharField(max_length=200)
    kind = models.CharField(max_length=20, choices=KINDS)
    reason = models.TextField()
    figures = models.JSONField(default=dict)
    remedies = models.JSONField(default=list)
    first_audit = models.ForeignKey(Audit, on_delete=models.PROTECT, related_name="+")
    last_audit = models.ForeignKey(Audit, on_delete=models.PROTECT, related_name="findings")
    first_seen_at = models.DateTimeField(default=now)
    last_seen_at = models.DateTimeField(default=now)
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-last_seen_at", "-pk")
        constraints = (
            models.UniqueConstraint(
                fields=("deployment", "check_name", "target"),
                condition=models.Q(resolved_at=None),
                name="one_open_finding_per_check",
            ),
        )

    def __str__(self) -> str:
        return f"{self.check_name} of {self.target}"

    @property
    def opens_incident(self) -> bool:
        """Answer whether this is a canary's finding of a security kind."""
        return Kind(self.kind) in SECURITY_KINDS


class ApiToken(models.Model):
    """A key with which a machine may ask for judgements; only its digest is kept.

    Without ``expires_at`` it stands until somebody revokes it.
    ``asked_in_minute`` counts what was asked since ``minute_began_at``, which bounds the rate.
    """

    name = models.SlugField(max_length=60, unique=True)
    digest = models.CharField(max_length=64, unique=True)
    made_by = models.CharField(max_length=150)
    made_at = models.DateTimeField(default=now)
    last_used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    minute_began_at = models.DateTimeField(null=True, blank=True)
    asked_in_minute = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def is_standing(self) -> bool:
        """Answer whether it still opens the door."""
        is_over = self.expires_at is not None and self.expires_at <= now()
        return self.revoked_at is None and not is_over
