"""Deployments, their nodes, the keys to speak to them, and what nodes said of themselves."""

from __future__ import annotations

import uuid
from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator
from django.db import models

from common.clock import now
from common.leases import Leased, LeasedQuerySet
from common.sealing import Sealed
from fleet import rotation_rows  # noqa: F401 - so that Django finds the models of that module
from fleet.choices import engine_choices, router_choices
from fleet.reading import DEFAULT_HEADROOM, Role
from fleet.validation import LONGEST_ADDRESS, validate_address, validate_attestable


class Deployment(models.Model):
    """One model served under one name.

    ``advertised_context`` (tokens) may raise what the engines say; ``granted_tokens`` is what a
    canary round may cost; ``control_url`` is where a redeploy lever finds the drill's control.
    ``plans`` names the canary plans that its audits run; none means the boundary alone.
    """

    name = models.SlugField(max_length=60, unique=True)
    model = models.CharField("served model", max_length=200)
    engine = models.CharField(max_length=40, choices=engine_choices, default="sglang")
    router_kind = models.CharField(
        max_length=40, choices=router_choices, default="sglang-router", blank=True
    )
    router_url = models.CharField(
        "router address", max_length=LONGEST_ADDRESS, blank=True, validators=[validate_address]
    )
    router_metrics_url = models.CharField(
        max_length=LONGEST_ADDRESS,
        blank=True,
        default="",
        db_default="",
        validators=[validate_address],
    )
    control_url = models.CharField(
        "drill control address",
        max_length=LONGEST_ADDRESS,
        blank=True,
        validators=[validate_address],
    )
    advertised_context = models.PositiveIntegerField(null=True, blank=True)
    headroom = models.DecimalField(
        max_digits=5,
        decimal_places=3,
        default=DEFAULT_HEADROOM,
        validators=[MinValueValidator(Decimal(1))],
    )
    granted_tokens = models.PositiveIntegerField(default=0)
    required_checks = models.JSONField(default=list, blank=True)
    plans = models.JSONField("canary plans", default=list, db_default=[], blank=True)
    added_at = models.DateTimeField(default=now)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """One engine process at an address; ``pruned_at`` is when its old readings were looked at."""

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="nodes")
    name = models.SlugField(max_length=60)
    url = models.CharField("address", max_length=LONGEST_ADDRESS, validators=[validate_address])
    role = models.CharField(max_length=10, choices=[(role.value, role.value) for role in Role])
    bootstrap_port = models.PositiveIntegerField(null=True, blank=True)
    added_at = models.DateTimeField(default=now)
    retired_at = models.DateTimeField(null=True, blank=True)
    pruned_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("deployment", "-role", "name")
        constraints = (
            models.UniqueConstraint(fields=("deployment", "name"), name="node_name_once"),
            models.UniqueConstraint(
                fields=("deployment", "url"),
                condition=models.Q(retired_at=None),
                name="node_url_once",
            ),
        )

    def __str__(self) -> str:
        return self.name


class Purpose(models.TextChoices):
    """What a key opens."""

    NODE = "node", "node key"
    ADMIN = "admin", "node admin key"
    ROUTER = "router", "router control key"
    TENANT_A = "tenant_a", "tenant A"
    TENANT_B = "tenant_b", "tenant B"


class Credential(models.Model):
    """A key, sealed to its row. ``name`` is the tenant's where it is one."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="credentials")
    purpose = models.CharField(max_length=10, choices=Purpose.choices)
    name = models.CharField(max_length=60, blank=True)
    sealed = models.BinaryField(default=bytes)
    changed_at = models.DateTimeField(default=now)

    key = Sealed("sealed")

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("deployment", "purpose"), name="one_credential_per_purpose"
            ),
        )

    def __str__(self) -> str:
        return f"{self.get_purpose_display()} of {self.deployment}"


class NodeReading(models.Model):
    """What one node said at one moment, as judged; ``document`` is the reading's public form.

    ``outcome`` says in one word how asking went. ``changed_from`` is the last reading before in
    which the node could be read, where it was another node or another start of it by then.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="readings")
    taken_at = models.DateTimeField(db_index=True)
    fingerprint = models.CharField(max_length=64)
    problem = models.CharField(max_length=500, blank=True)
    document = models.JSONField()
    outcome = models.CharField(max_length=12, blank=True)
    changed_from = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )

    class Meta:
        ordering = ("-taken_at", "-pk")
        get_latest_by = ("taken_at", "pk")
        indexes = (
            models.Index(fields=("node", "-taken_at", "-id"), name="reading_newest"),
            models.Index(
                fields=("changed_from",),
                condition=models.Q(changed_from__isnull=False),
                name="reading_changed",
            ),
        )

    def __str__(self) -> str:
        return f"{self.node} at {self.taken_at:%Y-%m-%d %H:%M:%S}"


class OutOfRotation(models.Model):
    """A worker that Pagewarden took out of a router, with all that is needed to add it back.

    The row is committed before the act; ``confirmed_at`` says when the router no longer listed it,
    ``return_ordered_at`` that it is being put back, so that it may be listed again.
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="taken_out")
    url = models.CharField(max_length=LONGEST_ADDRESS)
    worker = models.JSONField()
    taken_out_by = models.CharField(max_length=150)
    taken_out_at = models.DateTimeField(default=now)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    return_ordered_at = models.DateTimeField(null=True, blank=True)
    put_back_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("deployment", "pk")
        constraints = (
            models.UniqueConstraint(
                fields=("deployment", "url"),
                condition=models.Q(put_back_at=None),
                name="taken_out_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.url} out of {self.deployment}"


class Sweep(models.Model):
    """One reading of many deployments; it is over when every shard is."""

    trigger = models.CharField(max_length=20, default="person")
    requested_by = models.CharField(max_length=150)
    node_count = models.PositiveIntegerField()
    started_at = models.DateTimeField(default=now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-started_at", "-pk")
        constraints = (
            models.UniqueConstraint(
                fields=("ended_at",),
                condition=models.Q(ended_at=None),
                name="one_sweep_under_way",
                nulls_distinct=False,
            ),
        )

    def __str__(self) -> str:
        return f"sweep {self.pk}"


class SweepShardQuerySet(LeasedQuerySet["SweepShard"]):
    """Claims shards."""

    def live(self) -> SweepShardQuerySet:
        """Answer the shards that are not read yet."""
        return self.filter(ended_at=None)


class SweepShard(Leased):
    """Whole deployments that one task reads; a killed worker's shard is read by another.

    ``outcomes`` counts nodes by how asking them went, ``verdicts`` deployments by what the gates
    said. ``problem`` says why a shard was given up: what it held is then not read.
    """

    sweep = models.ForeignKey(Sweep, on_delete=models.CASCADE, related_name="shards")
    number = models.PositiveIntegerField()
    deployments = ArrayField(models.BigIntegerField())
    node_count = models.PositiveIntegerField()
    done_count = models.PositiveIntegerField(default=0)
    outcomes = models.JSONField(default=dict)
    verdicts = models.JSONField(default=dict)
    problem = models.CharField(max_length=500, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = SweepShardQuerySet.as_manager()

    class Meta:
        ordering = ("sweep", "number")
        constraints = (
            models.UniqueConstraint(fields=("sweep", "number"), name="shard_number_once"),
        )

    def __str__(self) -> str:
        return f"shard {self.number} of {self.sweep}"


class Attestation(models.Model):
    """A person's word for what an engine does not show, until it is withdrawn or runs out.

    Without a node it is said of every node of the deployment. Rows are never changed but for the
    withdrawal; a new word for the same key withdraws the old one.
    """

    deployment = models.ForeignKey(
        Deployment, on_delete=models.PROTECT, related_name="attestations"
    )
    node = models.ForeignKey(
        Node, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    key = models.CharField("what is attested", max_length=80, validators=[validate_attestable])
    value = models.CharField(max_length=300)
    reason = models.CharField(max_length=500)
    by = models.CharField(max_length=150)
    given_at = models.DateTimeField(default=now)
    until = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    withdrawn_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("deployment", "key", "pk")
        constraints = (
            models.UniqueConstraint(
                fields=("deployment", "node", "key"),
                condition=models.Q(withdrawn_at=None),
                nulls_distinct=False,
                name="one_standing_attestation",
            ),
        )

    def __str__(self) -> str:
        return f"{self.key}={self.value} of {self.node or self.deployment} by {self.by}"

    @property
    def is_standing(self) -> bool:
        """Answer whether it still counts."""
        return self.withdrawn_at is None and self.until > now()
