"""Which nodes an import would retire because the document no longer lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleet.endpoint import is_same_place
from fleet.models import Deployment, Node
from fleet.portable import DeploymentEntry
from fleet.retiring import retire_objections, stored_objection
from fleet.selectors import nodes_current


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What goes, by deployment, and why some of it may not, by ``deployment/node``."""

    leaving: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    objections: Mapping[str, str] = field(default_factory=dict)

    def leaving_of(self, name: str) -> tuple[Node, ...]:
        """Answer the nodes of a deployment that go."""
        return self.leaving.get(name, ())


def pruning_of(entries: Iterable[DeploymentEntry]) -> Pruning:
    """Answer what a document prunes. Asks the router of each deployment that would lose a node.

    Only deployments that the document names lose nodes.
    """
    leaving: dict[str, tuple[Node, ...]] = {}
    objections: dict[str, str] = {}
    for entry in entries:
        deployment = Deployment.objects.filter(name=entry.name).first()
        named = {one.name for one in entry.nodes}
        current = nodes_current(deployment) if deployment else []
        going = tuple(node for node in current if node.name not in named)
        if deployment is not None and going:
            leaving[entry.name] = going
            why = _objections(deployment, going, entry)
            objections |= {f"{entry.name}/{node}": text for node, text in why.items()}
    return Pruning(leaving=leaving, objections=objections)


def _objections(
    deployment: Deployment, going: Iterable[Node], entry: DeploymentEntry
) -> Mapping[str, str]:
    if not entry.nodes:
        why = "the document lists no node of it at all; retire the last ones on their pages"
        return {node.name: why for node in going}
    renamed = [node for node in going if _is_renamed(node, entry)]
    # Under its new name it stays judged, so the router may go on listing it.
    stored = {node.name: why for node in renamed if (why := stored_objection(node))}
    others = [node for node in going if node not in renamed]
    return {**stored, **retire_objections(deployment=deployment, nodes=others)}


def _is_renamed(node: Node, entry: DeploymentEntry) -> bool:
    return any(is_same_place(node.url, one.url) for one in entry.nodes)
