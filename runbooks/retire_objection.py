"""No node is retired under a run that acts on its deployment."""

from __future__ import annotations

from fleet.models import Node
from fleet.retiring import OBJECTORS
from runbooks.models import Run, RunState


@OBJECTORS.register("run")
class RunUnderWay:
    """Objects while a run of the deployment is not over; one that failed waits for a person."""

    def objection(self, node: Node) -> str:
        """Answer which run still counts on the node; empty where none does."""
        run = Run.objects.filter(
            incident__deployment=node.deployment_id, state__in=[RunState.ACTIVE, RunState.FAILED]
        ).first()
        if run is None:
            return ""
        return (
            f"run {run.pk} acts on the nodes of {node.deployment} and is {run.state}: let it come "
            "to its end, or abort it"
        )
