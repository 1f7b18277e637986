"""All that is needed to speak to one deployment, taken out of the database: no row, no query."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from fleet.live import NodeAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAccess:
    """One of the two probing tenants; the key is never shown."""

    name: str
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentAccess:
    """Addresses and keys of a deployment; ``advertised`` and ``granted_tokens`` in tokens."""

    name: str
    model: str
    engine: str
    nodes: tuple[NodeAddress, ...]
    router_kind: str
    router_url: str
    headroom: Decimal
    advertised: int | None
    granted_tokens: int
    tenant_a: TenantAccess
    tenant_b: TenantAccess
    node_key: str = field(default="", repr=False)
    admin_key: str = field(default="", repr=False)
    router_key: str = field(default="", repr=False)
    required_checks: tuple[str, ...] = ()
    router_metrics_url: str = ""

    def node_at(self, url: str) -> NodeAddress | None:
        """Answer the node at an address, trailing slash or not."""
        wanted = url.rstrip("/")
        return next((node for node in self.nodes if node.url.rstrip("/") == wanted), None)
