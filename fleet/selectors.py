"""Reads of this floor."""

from __future__ import annotations

from django.conf import settings

from fleet.access import DeploymentAccess, TenantAccess
from fleet.address import AddressPolicy, policy_from_environment
from fleet.client import OutboundClient
from fleet.live import NodeAddress
from fleet.models import Credential, Deployment, Node, NodeReading, OutOfRotation, Purpose
from fleet.reading import Role


def deployment_access(deployment: Deployment) -> DeploymentAccess:
    """Answer addresses and keys of a deployment. Raises SealBroken."""
    credentials = {one.purpose: one for one in deployment.credentials.all()}

    def key_of(purpose: Purpose) -> str:
        credential = credentials.get(purpose)
        return credential.key if credential else ""

    return DeploymentAccess(
        name=deployment.name,
        model=deployment.model,
        engine=deployment.engine,
        nodes=tuple(_address(node, deployment.engine) for node in nodes_current(deployment)),
        router_kind=deployment.router_kind,
        router_url=deployment.router_url.rstrip("/"),
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


def _address(node: Node, engine: str) -> NodeAddress:
    return NodeAddress(
        name=node.name,
        url=node.url.rstrip("/"),
        role=Role(node.role),
        engine=engine,
        bootstrap_port=node.bootstrap_port,
    )


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
