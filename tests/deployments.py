"""A drill that runs and is stored as a deployment, and what a redeploy does to it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from common.clock import now
from fleet.models import Deployment, Purpose
from fleet.reading import Role
from fleet.services import (
    DeploymentTerms,
    Key,
    NodeTerms,
    credentials_set,
    deployment_add,
    node_add,
    readings_take,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillCluster:
    """A running drill: what its first line said."""

    router: str
    control: str
    nodes: tuple[dict[str, Any], ...]
    tenants: tuple[dict[str, str], ...]
    model: str
    context: int
    page_size: int


DrillStarter = Callable[..., DrillCluster]
Registered = tuple[Deployment, DrillCluster]
Register = Callable[..., Registered]


def registrar(start_drill: DrillStarter) -> Register:
    """Answer what starts a drill and stores it as a deployment."""

    def start(*arguments: str, granted_tokens: int = 1_000_000) -> Registered:
        drill = start_drill(*arguments)
        deployment = deployment_add(
            actor="test",
            terms=DeploymentTerms(
                name="drill",
                model=drill.model,
                router_url=drill.router,
                control_url=drill.control,
                granted_tokens=granted_tokens,
            ),
        )
        for node in drill.nodes:
            terms = NodeTerms(
                name=node["name"],
                url=node["url"],
                role=Role(node["role"]),
                bootstrap_port=node["bootstrap_port"],
            )
            node_add(actor="test", deployment=deployment, terms=terms)
        keys = [
            Key(purpose=purpose, name=tenant["name"], key=tenant["api_key"])
            for purpose, tenant in zip(
                (Purpose.TENANT_A, Purpose.TENANT_B), drill.tenants, strict=True
            )
        ]
        credentials_set(actor="test", deployment=deployment, keys=keys)
        return deployment, drill

    return start


def redeploy(drill: DrillCluster, node: str, **wish: object) -> None:
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{drill.control}/nodes/{node}/restart",
        data=json.dumps(wish).encode(),
        headers={"content-type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=5) as reply:  # noqa: S310 - loopback
        assert reply.status < 300


def await_serving(deployment: Deployment) -> None:
    """Wait until every node answers again after a redeploy."""
    deadline = now().timestamp() + 10
    while now().timestamp() < deadline:
        if all(one.is_read for one in readings_take(deployment=deployment).readings):
            return
    raise AssertionError("the drill did not come back within 10 s")
