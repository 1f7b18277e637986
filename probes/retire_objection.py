"""No node is retired under an audit that reads it, or an act at its router."""

from __future__ import annotations

from fleet.models import Node
from fleet.retiring import OBJECTORS
from probes.job_rows import LIVE_JOBS, RouterJob
from probes.selectors import audit_under_way


@OBJECTORS.register("audit")
class AuditUnderWay:
    """Objects while an audit of the deployment is queued or running."""

    def objection(self, node: Node) -> str:
        """Answer which audit still counts on the node; empty where none does."""
        audit = audit_under_way(node.deployment)
        if audit is None:
            return ""
        return f"audit {audit.pk} of {node.deployment} is {audit.state} and reads it: wait for it"


@OBJECTORS.register("router_job")
class RouterJobUnderWay:
    """Objects while somebody has asked for an act at the deployment's router."""

    def objection(self, node: Node) -> str:
        """Answer which act may still bring the node in; empty where none does."""
        job = RouterJob.objects.filter(deployment=node.deployment_id, state__in=LIVE_JOBS).first()
        if job is None:
            return ""
        asked = f"“{job.get_kind_display()}”, asked for by {job.requested_by}"
        return f"{asked}, is {job.state} at the router of {node.deployment}: wait for it"
