"""Retires nodes, unless somebody still counts on them: the router, an audit, a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from django.db import transaction

from common.clock import now
from common.registry import Registry, UnknownKey
from common.sealing import SealBroken
from common.trail import record
from fleet.contract import FleetError
from fleet.endpoint import is_same_place, may_be_same_place
from fleet.models import Deployment, Node
from fleet.reading import Worker
from fleet.selectors import out_of_rotation
from fleet.services import Actor, actor_name
from fleet.taking_out import rotation_list


class RetireRefused(Exception):
    """The node stays in the fleet's list; the text says why and what to do first."""


class Objector(Protocol):
    """What a floor above has to say before a node is retired."""

    def objection(self, node: Node) -> str:
        """Answer why the node may not be retired now; empty where it may."""
        ...


#: Filled by the floors above, of which this one knows nothing.
OBJECTORS: Final = Registry[Objector]("objector to retiring")


def retire_objections(*, deployment: Deployment, nodes: Iterable[Node]) -> Mapping[str, str]:
    """Answer by name why nodes may not be retired now; only those that may not are in it.

    Asks the router once. Where it cannot be read nothing is known of what it lists, so no node of
    the deployment may go.
    """
    nodes = list(nodes)
    objections = {node.name: why for node in nodes if (why := stored_objection(node))}
    others = [node for node in nodes if node.name not in objections]
    if not others or not deployment.router_url:
        return objections
    try:
        listed = rotation_list(deployment=deployment)
    except (FleetError, UnknownKey, SealBroken) as fault:
        unread = (
            f"whether the router still lists it cannot be told: {fault}. Try again once it "
            f"answers; where it is gone for good, take its address off {deployment} first"
        )
        return objections | {node.name: unread for node in others}
    return objections | {node.name: why for node in others if (why := _listed(node, listed))}


def _listed(node: Node, workers: Iterable[Worker]) -> str:
    for worker in workers:
        if is_same_place(worker.url, node.url):
            return (
                f"the router still lists {worker.url}: take it out at the router first, else it "
                "serves and nobody judges it"
            )
        if may_be_same_place(worker.url, node.url):
            return (
                f"the router lists {worker.url}, which may be {node} under another spelling: take "
                "it out at the router first"
            )
    return ""


def stored_objection(node: Node) -> str:
    """Answer why a node may not be retired, as far as is stored; asks nobody."""
    if node.retired_at is not None:
        return "it is retired already"
    for row in out_of_rotation(node.deployment):
        if is_same_place(row.url, node.url):
            return (
                f"{row.taken_out_by} took it out of the router and is to put it back: let that "
                "come to its end first"
            )
    objections = (one.objection(node) for one in OBJECTORS.all().values())
    return next((why for why in objections if why), "")


def node_retire(*, actor: Actor, node: Node) -> None:
    """Take a node out of the fleet's list; its readings, audits and findings stay.

    Raises NotAllowed, RetireRefused.
    """
    name = actor_name(actor, to="retire a node")
    objections = retire_objections(deployment=node.deployment, nodes=[node])
    if why := objections.get(node.name):
        raise RetireRefused(f"{node} is not retired: {why}")
    with transaction.atomic():
        node_retire_locked(actor=name, node=node)


def node_retire_locked(*, actor: str, node: Node) -> None:
    """Retire a node of which the router was asked just before. Raises RetireRefused.

    The caller holds a transaction. The row lock makes it take turns with what queues an audit.
    """
    Deployment.objects.select_for_update().get(pk=node.deployment_id)
    node.refresh_from_db(fields=["retired_at"])
    if why := stored_objection(node):
        raise RetireRefused(f"{node} is not retired: {why}")
    node.retired_at = now()
    node.save(update_fields=["retired_at"])
    record(actor=actor, action="node_retired", subject=f"{node.deployment.name}/{node.name}")
