"""Reads of this floor."""

from __future__ import annotations

from django.db.models import QuerySet

from common.clock import now
from fleet.models import Deployment, NodeReading
from probes.history import HistoryLine, history_line
from probes.judgement import SECURITY_KINDS
from probes.models import Audit, AuditState, Finding, Proof


def audit_latest(deployment: Deployment) -> Audit | None:
    """Answer the newest audit that is over."""
    return deployment.audits.filter(state__in=[AuditState.DONE, AuditState.STOPPED]).first()


def audit_under_way(deployment: Deployment) -> Audit | None:
    """Answer the audit that is queued or running."""
    return deployment.audits.exclude(state__in=[AuditState.DONE, AuditState.STOPPED]).first()


def proof_standing(deployment: Deployment) -> Proof | None:
    """Answer the proof that still opens a door."""
    return deployment.proofs.filter(voided_at=None, expires_at__gt=now()).first()


def changes_newest(deployment: Deployment, *, limit: int = 20) -> tuple[HistoryLine, ...]:
    """Answer when nodes changed or restarted and in what, newest first."""
    rows = NodeReading.objects.filter(
        node__deployment=deployment, changed_from__isnull=False
    ).select_related("node", "changed_from")
    return tuple(
        history_line(
            node=row.node.name,
            at=row.taken_at,
            before=row.changed_from.document,
            after=row.document,
        )
        for row in rows[:limit]
        if row.changed_from is not None
    )


def findings_open(deployment: Deployment) -> QuerySet[Finding]:
    """Answer what is wrong by the last word of each check."""
    return deployment.findings.filter(resolved_at=None)


def findings_awaiting_incident() -> QuerySet[Finding]:
    """Answer open canary findings of a security kind; the floor above pulls them.

    A canary's check is named plan.oracle; gates have no dot in their name.
    """
    return Finding.objects.filter(
        resolved_at=None, kind__in=[str(kind) for kind in SECURITY_KINDS], check_name__contains="."
    ).select_related("deployment", "last_audit")
