"""Reads of this floor."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Prefetch

from common.sealing import SealBroken
from fleet.access import DeploymentAccess, TenantAccess
from fleet.address import AddressPolicy, policy_from_environment
from fleet.client import OutboundClient
from fleet.live import NodeAddress
from fleet.models import (
    Attestation,
    Credential,
    Deployment,
    Node,
    NodeReading,
    OutOfRotation,
    Purpose,
)
from fleet.reading import Attestation as Word
from fleet.reading import Role

log = logging.getLogger(__name__)


def deployment_access(deployment: Deployment) -> DeploymentAccess:
    """Answer addresses and keys of a deployment. Raises SealBroken."""
    return _access(deployment, nodes_current(deployment))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A deployment with all that is needed to speak to it; ``node_keys`` are rows by name.

    ``access`` is None where a key of it cannot be unsealed.
    """

    deployment: Deployment
    access: DeploymentAccess | None
    node_keys: Mapping[str, int]


def deployments_opened(keys: Iterable[int]) -> list[Opened]:
    """Answer several deployments in a fixed number of queries; one broken seal spoils only one."""
    current = Node.objects.filter(retired_at=None).order_by("-role", "name")
    rows = Deployment.objects.filter(pk__in=list(keys)).prefetch_related(
        "credentials", "attestations", Prefetch("nodes", queryset=current)
    )
    return [
        Opened(
            deployment=row,
            access=_access_or_none(row),
            node_keys={node.name: node.pk for node in row.nodes.all()},
        )
        for row in rows
    ]


def _access_or_none(deployment: Deployment) -> DeploymentAccess | None:
    try:
        return _access(deployment, list(deployment.nodes.all()))
    except SealBroken:
        log.exception("a key of %s cannot be unsealed: set its keys again", deployment)
        return None


def _access(deployment: Deployment, nodes: list[Node]) -> DeploymentAccess:
    credentials = {one.purpose: one for one in deployment.credentials.all()}
    words = [one for one in deployment.attestations.all() if one.is_standing]

    def key_of(purpose: Purpose) -> str:
        credential = credentials.get(purpose)
        return credential.key if credential else ""

    return DeploymentAccess(
        name=deployment.name,
        model=deployment.model,
        engine=deployment.engine,
        nodes=tuple(_address(node, deployment.engine, words) for node in nodes),
        router_kind=deployment.router_kind,
        router_url=deployment.router_url.rstrip("/"),
        router_metrics_url=deployment.router_metrics_url,
        # The column keeps three decimals; people read 1.25.
        headroom=deployment.headroom.normalize(),
        advertised=deployment.advertised_context,
        granted_tokens=deployment.granted_tokens,
        tenant_a=_tenant(credentials.get(Purpose.TENANT_A), "tenant-a"),
        tenant_b=_tenant(credentials.get(Purpose.TENANT_B), "tenant-b"),
        node_key=key_of(Purpose.NODE),
        admin_key=key_of(Purpose.ADMIN),
        router_key=key_of(Purpose.ROUTER),
        required_checks=tuple(deployment.required_checks),
    )


def _tenant(credential: Credential | None, default_name: str) -> TenantAccess:
    if credential is None:
        return TenantAccess(name=default_name)
    return TenantAccess(name=credential.name or default_name, key=credential.key)


def _address(node: Node, engine: str, words: Iterable[Attestation]) -> NodeAddress:
    # What is said of a node stands before what is said of all.
    about = sorted(
        (one for one in words if one.node_id in {None, node.pk}), key=lambda one: one.node_id or 0
    )
    said = {one.key: _word(one) for one in about}
    return NodeAddress(
        name=node.name,
        url=node.url.rstrip("/"),
        role=Role(node.role),
        engine=engine,
        bootstrap_port=node.bootstrap_port,
        attested=tuple(said.values()),
    )


def _word(row: Attestation) -> Word:
    return Word(key=row.key, value=row.value, reason=row.reason, by=row.by, until=row.until)


def attestations_standing(deployment: Deployment) -> list[Attestation]:
    """Answer what people vouch for and nobody withdrew, run out or not."""
    return list(deployment.attestations.filter(withdrawn_at=None).select_related("node"))


def nodes_current(deployment: Deployment) -> list[Node]:
    """Answer the nodes that are not retired, prefill first."""
    return list(deployment.nodes.filter(retired_at=None).order_by("-role", "name"))


def readings_latest(deployment: Deployment) -> list[NodeReading]:
    """Answer the newest reading of each current node, where there is one."""
    return list(
        NodeReading.objects.filter(node__deployment=deployment, node__retired_at=None)
        .order_by("node_id", "-taken_at", "-pk")
        .distinct("node_id")
        .select_related("node")
    )


def out_of_rotation(deployment: Deployment) -> list[OutOfRotation]:
    """Answer what Pagewarden took out of the router and has not put back."""
    return list(deployment.taken_out.filter(put_back_at=None))


def outbound_policy() -> AddressPolicy:
    """Answer the address policy that the operator set."""
    return policy_from_environment(
        {
            "PAGEWARDEN_ALLOW_NETWORKS": settings.OUTBOUND_ALLOW,
            "PAGEWARDEN_DENY_NETWORKS": settings.OUTBOUND_DENY,
        }
    )


def outbound_client() -> OutboundClient:
    """Answer a client under the operator's policy, to be entered."""
    return OutboundClient(policy=outbound_policy())


def sweeping_client() -> OutboundClient:
    """Answer a client for a sweep: it lets a node's connection go as soon as the node is read."""
    return OutboundClient(
        policy=outbound_policy(), concurrency=settings.SWEEP_CONCURRENCY, keep_alive_s=0.5
    )
