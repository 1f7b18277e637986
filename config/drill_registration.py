"""Registers the drill cluster as a deployment, from the first line that it printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.db import transaction

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
)

NAME = "drill"
#: A boundary round on the drill's figures costs well below this (docs/adr/0006).
GRANTED_TOKENS = 1_000_000
_ACTOR = "pagewarden up"


@transaction.atomic
def drill_register(*, file: Path) -> bool:
    """Add the drill deployment, or bring its addresses and keys up to date.

    Answers whether a drill is there. The grant and headroom that people set are left alone.
    """
    if not file.is_file():
        return False
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    deployment = Deployment.objects.filter(name=NAME).first() or _add(said)
    Deployment.objects.filter(pk=deployment.pk).update(
        router_url=said["router"], control_url=said["control"], model=said["model"]
    )
    _settle_nodes(deployment, said["nodes"])
    tenant_a, tenant_b = said["tenants"][:2]
    credentials_set(
        actor=_ACTOR,
        deployment=deployment,
        keys=[
            Key(purpose=Purpose.TENANT_A, name=tenant_a["name"], key=tenant_a["api_key"]),
            Key(purpose=Purpose.TENANT_B, name=tenant_b["name"], key=tenant_b["api_key"]),
        ],
    )
    return True


def _add(said: dict[str, Any]) -> Deployment:
    return deployment_add(
        actor=_ACTOR,
        terms=DeploymentTerms(
            name=NAME,
            model=said["model"],
            router_url=said["router"],
            control_url=said["control"],
            granted_tokens=GRANTED_TOKENS,
        ),
    )


def _settle_nodes(deployment: Deployment, nodes: list[dict[str, Any]]) -> None:
    """Keep nodes whose address stands, retire those that moved, add those that are new."""
    by_url = {node["url"].rstrip("/"): node for node in nodes}
    for node in deployment.nodes.filter(retired_at=None):
        if node.url.rstrip("/") not in by_url:
            node.retired_at = now()
            # The name is wanted by the node's successor.
            node.name = f"{node.name}-until-{node.retired_at:%Y%m%d%H%M%S}"
            node.save(update_fields=["retired_at", "name"])
    known = {node.url.rstrip("/") for node in deployment.nodes.filter(retired_at=None)}
    for url, said in by_url.items():
        if url not in known:
            terms = NodeTerms(
                name=said["name"],
                url=url,
                role=Role(said["role"]),
                bootstrap_port=said.get("bootstrap_port"),
            )
            node_add(actor=_ACTOR, deployment=deployment, terms=terms)
