"""Deployments, their nodes, the keys to speak to them, and what nodes said of themselves."""

from __future__ import annotations

import uuid
from decimal import Decimal

from django.core.validators import MinValueValidator
from django.db import models

from common.clock import now
from common.sealing import Sealed
from fleet.contract import ENGINES, ROUTERS
from fleet.reading import DEFAULT_HEADROOM, Role
from fleet.validation import LONGEST_ADDRESS, validate_address


def engine_choices() -> list[tuple[str, str]]:
    """Answer the registered engines; uncalled in the field, so a new one needs no migration."""
    return [(key, adapter.title) for key, adapter in ENGINES.all().items()]


def router_choices() -> list[tuple[str, str]]:
    """Answer the registered kinds of router."""
    return [(key, adapter.title) for key, adapter in ROUTERS.all().items()]


class Deployment(models.Model):
    """One model served under one name.

    ``advertised_context`` (tokens) may raise what the engines say; ``granted_tokens`` is what a
    boundary round may cost; ``control_url`` is where a redeploy lever finds the drill's control.
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
    added_at = models.DateTimeField(default=now)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """One engine process at an address."""

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="nodes")
    name = models.SlugField(max_length=60)
    url = models.CharField("address", max_length=LONGEST_ADDRESS, validators=[validate_address])
    role = models.CharField(max_length=10, choices=[(role.value, role.value) for role in Role])
    bootstrap_port = models.PositiveIntegerField(null=True, blank=True)
    added_at = models.DateTimeField(default=now)
    retired_at = models.DateTimeField(null=True, blank=True)

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
    """What one node said at one moment, as judged; ``document`` is the reading's public form."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="readings")
    taken_at = models.DateTimeField(db_index=True)
    fingerprint = models.CharField(max_length=64)
    problem = models.CharField(max_length=500, blank=True)
    document = models.JSONField()

    class Meta:
        ordering = ("-taken_at", "-pk")
        get_latest_by = ("taken_at", "pk")

    def __str__(self) -> str:
        return f"{self.node} at {self.taken_at:%Y-%m-%d %H:%M:%S}"


class OutOfRotation(models.Model):
    """A worker that Pagewarden took out of a router, with all that is needed to add it back.

    The row is committed before the act; ``confirmed_at`` says when the router no longer listed it.
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="taken_out")
    url = models.CharField(max_length=LONGEST_ADDRESS)
    worker = models.JSONField()
    taken_out_by = models.CharField(max_length=150)
    taken_out_at = models.DateTimeField(default=now)
    confirmed_at = models.DateTimeField(null=True, blank=True)
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
