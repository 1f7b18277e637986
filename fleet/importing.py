"""Imports the fleet: from a document, or from the address of a router."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from django.core.exceptions import ValidationError
from django.db import transaction

from common.clock import now
from common.trail import record
from fleet.discovery import Found, RouterOrder, discover
from fleet.models import Credential, Deployment, Node, Purpose
from fleet.portable import DeploymentEntry, DocumentError
from fleet.pruning import Pruning, pruning_of
from fleet.retiring import RetireRefused, node_retire_locked
from fleet.selectors import nodes_current, outbound_client
from fleet.services import (
    Actor,
    DeploymentTerms,
    Key,
    NodeTerms,
    actor_name,
    credentials_set,
    deployment_add,
    node_add,
)

#: What a rehearsal says of a node that the document no longer lists and that somebody needs.
CANNOT_BE_RETIRED = "cannot be retired"
_COLUMNS = tuple(DeploymentTerms.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an import did to one deployment or node.

    Added, changed, unchanged, kept or retired; after a rehearsal also: cannot be retired.
    """

    subject: str
    what: str
    columns: tuple[str, ...] = ()
    objection: str = ""

    def __str__(self) -> str:
        """Answer one line of the report."""
        said = [self.what, ", ".join(self.columns), self.objection and f"({self.objection})"]
        return f"{self.subject}: {' '.join(filter(None, said))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterImport:
    """A router to import and the keys to seal with what it lists (never shown)."""

    name: str
    order: RouterOrder
    node_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A deployment that was made from what a router lists."""

    deployment: Deployment
    found: Found


def router_look(*, order: RouterOrder) -> Found:
    """Answer what a router lists, and store nothing. Raises RouterError, UnknownKey."""
    return asyncio.run(_discover(order))


async def _discover(order: RouterOrder) -> Found:
    async with outbound_client() as client:
        return await discover(client, order)


def fleet_import_router(*, actor: Actor, wanted: RouterImport) -> Imported:
    """Make a deployment of all that a router lists; its kind is stored as it was recognised.

    The router is asked before the transaction begins. Raises NotAllowed, RouterError,
    ValidationError.
    """
    actor_name(actor, to="import a fleet")
    found = router_look(order=wanted.order)
    return Imported(deployment=_store_found(actor, wanted, found), found=found)


@transaction.atomic
def _store_found(actor: Actor, wanted: RouterImport, found: Found) -> Deployment:
    terms = DeploymentTerms(
        name=wanted.name,
        model=found.model,
        engine=found.engine,
        router_kind=found.kind,
        router_url=found.url,
        router_metrics_url=wanted.order.metrics_url,
    )
    deployment = deployment_add(actor=actor, terms=terms)
    for node in found.nodes:
        node_terms = NodeTerms(
            name=node.name, url=node.url, role=node.role, bootstrap_port=node.bootstrap_port
        )
        node_add(actor=actor, deployment=deployment, terms=node_terms)
    keys = (
        Key(purpose=Purpose.ROUTER, key=wanted.order.key),
        Key(purpose=Purpose.NODE, key=wanted.node_key),
    )
    credentials_set(actor=actor, deployment=deployment, keys=keys)
    return deployment


def fleet_import(
    *,
    actor: Actor,
    entries: Iterable[DeploymentEntry],
    is_pruning: bool = False,
    is_rehearsal: bool = False,
) -> tuple[Change, ...]:
    """Store a document by the names in it, all or nothing, and answer what became of each part.

    A second import of the same document changes nothing. Deployments that the document does not
    name stay, and keys are left as they are; so do nodes, unless ``is_pruning`` retires them. A
    rehearsal answers the same and stores nothing; what may not be retired stands in its answer.
    Raises NotAllowed, DocumentError.
    """
    name = actor_name(actor, to="import a fleet")
    entries = tuple(entries)
    # Routers are asked before the transaction begins.
    pruning = pruning_of(entries) if is_pruning else Pruning()
    if pruning.objections and not is_rehearsal:
        raise DocumentError(_refusal(pruning))
    with transaction.atomic():
        changes = _import_all(actor, entries, pruning)
        count = sum(one.what in {"added", "changed", "retired"} for one in changes)
        record(actor=name, action="fleet_imported", subject="fleet", changes=count)
        if is_rehearsal:
            transaction.set_rollback(True)
    return tuple(changes)


def _refusal(pruning: Pruning) -> str:
    return "; ".join(
        f"{subject} is not in the document and cannot be retired: {why}"
        for subject, why in pruning.objections.items()
    )


def _import_all(actor: Actor, entries: Iterable[DeploymentEntry], pruning: Pruning) -> list[Change]:
    changes: list[Change] = []
    for number, entry in enumerate(entries):
        # First, so that a renamed node leaves its address to its new name.
        changes += _prune(actor, entry.name, pruning)
        parts = _import_deployment(actor, entry, f"deployments[{number}]")
        changes += [one for one in parts if one.subject not in pruning.objections]
    return changes


def _prune(actor: Actor, deployment: str, pruning: Pruning) -> list[Change]:
    """Retire what the document no longer lists. Raises DocumentError."""
    changes = []
    for node in pruning.leaving_of(deployment):
        subject = f"{deployment}/{node.name}"
        if why := pruning.objections.get(subject, ""):
            changes.append(Change(subject=subject, what=CANNOT_BE_RETIRED, objection=why))
            continue
        try:
            node_retire_locked(actor=actor_name(actor, to="import a fleet"), node=node)
        except RetireRefused as refusal:
            raise DocumentError(str(refusal)) from None
        changes.append(Change(subject=subject, what="retired"))
    return changes


def _import_deployment(actor: Actor, entry: DeploymentEntry, place: str) -> list[Change]:
    known = Deployment.objects.select_for_update().filter(name=entry.name).first()
    wanted = {name: getattr(entry, name) for name in _COLUMNS}
    wanted["required_checks"] = list(entry.required_checks)
    wanted["plans"] = list(entry.plans)
    row = known or Deployment(name=entry.name)
    change = _store(row, wanted, place, subject=entry.name)
    nodes = _import_nodes(row, entry, place)
    tenants = _import_tenants(actor, row, entry)
    columns = (*change.columns, *tenants)
    if known is not None and tenants:
        change = replace(change, what="changed", columns=columns)
    return [change, *nodes]


def _import_nodes(deployment: Deployment, entry: DeploymentEntry, place: str) -> list[Change]:
    known = {node.name: node for node in deployment.nodes.select_for_update()}
    named = {node.name for node in entry.nodes}
    # Out of the list for a moment, so that two nodes can change addresses with each other.
    moving = [
        known[one.name].pk
        for one in entry.nodes
        if one.name in known and known[one.name].url != one.url
    ]
    deployment.nodes.filter(pk__in=moving).update(retired_at=now())
    changes = [
        _store(
            known.get(one.name) or Node(deployment=deployment, name=one.name),
            {
                "url": one.url,
                "role": one.role.value,
                "bootstrap_port": one.bootstrap_port,
                "retired_at": None,
            },
            f"{place}.nodes[{number}]",
            subject=f"{entry.name}/{one.name}",
        )
        for number, one in enumerate(entry.nodes)
    ]
    kept = [
        Change(subject=f"{entry.name}/{node.name}", what="kept, not in the document")
        for node in nodes_current(deployment)
        if node.name not in named
    ]
    return changes + kept


def _store(
    row: Deployment | Node, wanted: Mapping[str, object], place: str, *, subject: str
) -> Change:
    """Save what differs. Raises DocumentError with the place of each wrong column."""
    is_new = row.pk is None
    columns = tuple(name for name, value in wanted.items() if getattr(row, name) != value)
    if not is_new and not columns:
        return Change(subject=subject, what="unchanged")
    for name, value in wanted.items():
        setattr(row, name, value)
    try:
        row.full_clean()
    except ValidationError as error:
        raise DocumentError(_faults(error, place, subject)) from None
    row.save()
    if is_new:
        return Change(subject=subject, what="added")
    return Change(subject=subject, what="changed", columns=columns)


def _faults(error: ValidationError, place: str, subject: str) -> str:
    return "; ".join(
        f"{place}{'' if column == '__all__' else f'.{column}'} ({subject}): {' '.join(texts)}"
        for column, texts in error.message_dict.items()
    )


def _import_tenants(
    actor: Actor, deployment: Deployment, entry: DeploymentEntry
) -> tuple[str, ...]:
    """Set the names of probing tenants; answer which of them differ."""
    held = dict(Credential.objects.filter(deployment=deployment).values_list("purpose", "name"))
    new = {one: name for one, name in entry.tenants.items() if held.get(one) != name}
    credentials_set(
        actor=actor,
        deployment=deployment,
        keys=[Key(purpose=Purpose(one), key="", name=name) for one, name in new.items()],
    )
    return tuple(sorted(new))
