"""Reads of this floor."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import OuterRef, Q, QuerySet, Subquery

from common.clock import now
from common.verdicts import WORST_FIRST, Verdict
from fleet.models import Deployment, NodeReading
from probes.history import HistoryLine, history_line
from probes.judgement import SECURITY_KINDS
from probes.models import Audit, AuditCheck, AuditState, Finding, Proof


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedFinding:
    """An open finding and the last word of its check.

    ``verdict`` may be milder than fail where a later audit could not make the check: that resolves
    nothing.
    """

    finding: Finding
    required: bool
    verdict: Verdict


def findings_ranked(deployment: Deployment) -> tuple[RankedFinding, ...]:
    """Answer open findings: those of required checks first, of these the worst, then the newest."""
    newest = deployment.audits.filter(state=AuditState.DONE).values_list("pk", flat=True).first()
    words = AuditCheck.objects.filter(
        Q(audit=newest) | Q(audit=OuterRef("last_audit")),
        check_name=OuterRef("check_name"),
        target=OuterRef("target"),
    ).order_by("-audit__queued_at", "-audit_id")
    rows = findings_open(deployment).annotate(
        said_required=Subquery(words.values("required")[:1]),
        said_verdict=Subquery(words.values("verdict")[:1]),
    )
    ranked = [
        RankedFinding(
            finding=row,
            # Where no word is kept, the graver one is taken.
            required=row.said_required is not False,
            verdict=Verdict(row.said_verdict or Verdict.FAIL),
        )
        for row in rows.order_by("-last_seen_at", "-pk")
    ]
    return tuple(sorted(ranked, key=lambda one: (not one.required, WORST_FIRST.index(one.verdict))))


def findings_awaiting_incident() -> QuerySet[Finding]:
    """Answer open canary findings of a security kind; the floor above pulls them.

    A canary's check is named plan.oracle; gates have no dot in their name.
    """
    return Finding.objects.filter(
        resolved_at=None, kind__in=[str(kind) for kind in SECURITY_KINDS], check_name__contains="."
    ).select_related("deployment", "last_audit")
