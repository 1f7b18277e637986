"""Exports the fleet as entries of a document, and what a router lists as one."""

from __future__ import annotations

from dataclasses import replace

from fleet.discovery import Found
from fleet.models import Deployment
from fleet.portable import TENANTS, DeploymentEntry, NodeEntry
from fleet.reading import Role
from fleet.selectors import nodes_current
from fleet.services import DeploymentTerms

_COLUMNS = tuple(DeploymentTerms.__dataclass_fields__)


def entry_of_found(name: str, found: Found, *, metrics_url: str = "") -> DeploymentEntry:
    """Answer what a router lists as one deployment of a document."""
    return DeploymentEntry(
        name=name,
        model=found.model,
        engine=found.engine,
        router_kind=found.kind,
        router_url=found.url,
        router_metrics_url=metrics_url,
        nodes=tuple(
            NodeEntry(name=one.name, url=one.url, role=one.role, bootstrap_port=one.bootstrap_port)
            for one in found.nodes
        ),
    )


def fleet_export() -> tuple[DeploymentEntry, ...]:
    """Answer every deployment with its current nodes and its tenants' names; no key."""
    return tuple(_entry_of(one) for one in Deployment.objects.order_by("name"))


def _entry_of(deployment: Deployment) -> DeploymentEntry:
    entry = DeploymentEntry(
        **{name: getattr(deployment, name) for name in _COLUMNS if name != "plans"},
        required_checks=tuple(deployment.required_checks),
        plans=tuple(deployment.plans),
    )
    named = deployment.credentials.defer("sealed").filter(purpose__in=TENANTS).exclude(name="")
    return replace(
        entry,
        tenants={one.purpose: one.name for one in named.order_by("purpose")},
        nodes=tuple(
            NodeEntry(
                name=node.name,
                url=node.url,
                role=Role(node.role),
                bootstrap_port=node.bootstrap_port,
            )
            for node in nodes_current(deployment)
        ),
    )
