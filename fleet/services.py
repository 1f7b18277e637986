"""Writes of this floor: deployments, nodes, keys, readings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from django.contrib.auth.models import User
from django.db import transaction

from common.clock import now
from common.roles import Role as PersonRole
from common.roles import require_role
from common.trail import record
from fleet.access import DeploymentAccess
from fleet.contract import NodeCapture, Outcome
from fleet.keyless import capture_and_try, read_capture
from fleet.live import capture_fleet
from fleet.models import Credential, Deployment, Node, NodeReading, Purpose
from fleet.reading import Reading, Role
from fleet.reading_rows import Before, readings_before, readings_copy
from fleet.selectors import deployment_access, outbound_client
from fleet.snapshot import reading_document

_FLEET_ROLES = (PersonRole.RESPONDER, PersonRole.COMMANDER)
#: Who acts: a person, whose role is checked, or the name of a program of ours.
Actor = User | str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentTerms:
    """What people say of a deployment; lengths in tokens. No plans: the boundary alone."""

    name: str
    model: str
    engine: str = "sglang"
    router_kind: str = "sglang-router"
    router_url: str = ""
    router_metrics_url: str = ""
    control_url: str = ""
    advertised_context: int | None = None
    headroom: Decimal = Decimal("1.25")
    granted_tokens: int = 0
    plans: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerms:
    """What people say of a node."""

    name: str
    url: str
    role: Role
    bootstrap_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key to be sealed; ``name`` is the tenant's where it is one."""

    purpose: Purpose
    key: str = field(repr=False)
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at every node of a deployment."""

    captures: tuple[NodeCapture, ...]
    readings: tuple[Reading, ...]


def actor_name(actor: Actor, *, to: str) -> str:
    """Answer the actor's name. Raises NotAllowed for a person without a role."""
    if isinstance(actor, str):
        return actor
    require_role(actor, *_FLEET_ROLES, to=to)
    return actor.get_username()


@transaction.atomic
def deployment_add(*, actor: Actor, terms: DeploymentTerms) -> Deployment:
    """Store a deployment. Raises NotAllowed, ValidationError."""
    name = actor_name(actor, to="add a deployment")
    deployment = Deployment(**_columns(terms))
    deployment.full_clean()
    deployment.save()
    record(actor=name, action="deployment_added", subject=deployment.name)
    return deployment


@transaction.atomic
def deployment_change(*, person: User, deployment: Deployment, terms: DeploymentTerms) -> None:
    """Change what people say of a deployment. Raises NotAllowed, ValidationError."""
    require_role(person, *_FLEET_ROLES, to="change a deployment")
    for column, value in _columns(terms).items():
        setattr(deployment, column, value)
    deployment.full_clean()
    deployment.save()
    record(
        actor=person.get_username(),
        action="deployment_changed",
        subject=deployment.name,
        granted_tokens=deployment.granted_tokens,
        plans=", ".join(deployment.plans),
    )


def _columns(terms: DeploymentTerms) -> dict[str, object]:
    said = {name: getattr(terms, name) for name in DeploymentTerms.__dataclass_fields__}
    return {**said, "plans": [*terms.plans]}


@transaction.atomic
def node_add(*, actor: Actor, deployment: Deployment, terms: NodeTerms) -> Node:
    """Store a node of a deployment. Raises NotAllowed, ValidationError."""
    name = actor_name(actor, to="add a node")
    node = Node(
        deployment=deployment,
        name=terms.name,
        url=terms.url.rstrip("/"),
        role=terms.role.value,
        bootstrap_port=terms.bootstrap_port,
    )
    node.full_clean()
    node.save()
    record(actor=name, action="node_added", subject=f"{deployment.name}/{node.name}")
    return node


@transaction.atomic
def credentials_set(*, actor: Actor, deployment: Deployment, keys: Iterable[Key]) -> None:
    """Seal keys; one that is empty leaves what stands. Raises NotAllowed."""
    name = actor_name(actor, to="set keys")
    for key in keys:
        if not key.key and not key.name:
            continue
        credential, _ = Credential.objects.select_for_update().get_or_create(
            deployment=deployment, purpose=key.purpose
        )
        credential.name = key.name or credential.name
        if key.key:
            credential.key = key.key
        credential.changed_at = now()
        credential.save()
        record(actor=name, action="key_set", subject=f"{deployment.name}/{key.purpose}")


async def look_at(access: DeploymentAccess, *, tries_without_key: bool = False) -> Look:
    """Ask every node of a deployment and answer what each said; a silent one says so.

    ``tries_without_key`` asks once more for what showed secrets; not for looks every few seconds.
    """
    capture = capture_and_try if tries_without_key else capture_fleet
    async with outbound_client() as client:
        captures = await capture(
            client, access.nodes, key=access.node_key, admin_key=access.admin_key
        )
    return Look(captures=captures, readings=tuple(map(read_capture, captures)))


def readings_take(*, deployment: Deployment) -> Look:
    """Ask every node and store what each said."""
    look = asyncio.run(look_at(deployment_access(deployment), tries_without_key=True))
    readings_store(deployment=deployment, readings=look.readings)
    return look


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A reading of a node that is stored under ``node_key``, and in one word how asking went."""

    node_key: int
    reading: Reading
    outcome: str = ""


@transaction.atomic
def readings_store(
    *, deployment: Deployment, readings: Iterable[Reading]
) -> dict[str, NodeReading]:
    """Store readings of known nodes, and answer the rows by the node's name."""
    nodes = {node.name: node.pk for node in deployment.nodes.filter(retired_at=None)}
    found = [
        Found(node_key=nodes[reading.node], reading=reading)
        for reading in readings
        if reading.node in nodes
    ]
    rows = readings_keep(found=found)
    return {one.reading.node: row for one, row in zip(found, rows, strict=True)}


@transaction.atomic
def readings_keep(*, found: Sequence[Found]) -> list[NodeReading]:
    """Store readings of any number of nodes at once, and answer their rows in order.

    A row that differs from the last one before, or whose counters fell, points back to it.
    """
    before = readings_before(one.node_key for one in found)
    rows = [_row(one, before.get(one.node_key)) for one in found]
    readings_copy(rows)
    return rows


def _row(found: Found, before: Before | None) -> NodeReading:
    reading = found.reading
    fingerprint = reading.fingerprint
    is_changed = (
        before is not None
        and reading.is_read
        and before.differs_from(fingerprint, reading.counters)
    )
    return NodeReading(
        node_id=found.node_key,
        taken_at=reading.taken_at,
        fingerprint=fingerprint,
        problem=reading.problem[:500],
        outcome=found.outcome or (Outcome.READ if reading.is_read else ""),
        document=reading_document(reading),
        changed_from_id=before.key if before is not None and is_changed else None,
    )
