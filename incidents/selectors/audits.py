"""Reads audits as news for an incident: which ended since, and which undo a restore."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from common.verdicts import Verdict
from incidents.models import Incident, PulledAudit
from incidents.selectors.incidents import CANARY_MARK
from probes.models import Audit, AuditCheck, AuditState

_OVER = (AuditState.DONE, AuditState.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCheck:
    """Why a restore does not hold: the audit, and what it found in one sentence."""

    audit: int
    reason: str


def audits_of(incident: Incident) -> QuerySet[Audit]:
    """Answer the ended audits that belong to an incident, oldest first.

    Those that saw its findings, and all of its deployment from its opening to its closing.
    """
    meanwhile = Q(ended_at__gte=incident.opened_at)
    if incident.closed_at is not None:
        meanwhile &= Q(ended_at__lte=incident.closed_at)
    sighted = Q(pk__in=incident.findings.values("first_audit")) | Q(
        pk__in=incident.findings.values("last_audit")
    )
    return Audit.objects.filter(
        meanwhile | sighted, deployment=incident.deployment_id, state__in=_OVER
    ).order_by("ended_at", "pk")


def audits_untold(incident: Incident) -> QuerySet[Audit]:
    """Answer the audits of an incident that its timeline does not tell yet, oldest first."""
    told = PulledAudit.objects.filter(incident=incident, audit=OuterRef("pk"))
    return audits_of(incident).filter(~Exists(told))


def failed_since_restore(incident: Incident) -> FailedCheck | None:
    """Answer the first thing since the restore that does not let it stand, or None.

    A failed audit does not, and neither does a required canary that was anything but a pass. A
    gate that could not be read is no proof of harm and waits for the next audit.
    """
    if incident.restored_at is None:
        return None
    audits = Audit.objects.filter(
        deployment=incident.deployment_id,
        state__in=_OVER,
        ended_at__gt=incident.restored_at,
    )
    check = _first_bad_canary(audits)
    if check is not None:
        words = check.verdict.replace("_", " ")
        return FailedCheck(
            audit=check.audit_id, reason=f"{check.check_name} is {words}: {check.reason}"
        )
    failed = audits.filter(verdict=Verdict.FAIL).order_by("ended_at", "pk").first()
    if failed is None:
        return None
    return FailedCheck(audit=failed.pk, reason=failed.headline or "it failed")


def _first_bad_canary(audits: QuerySet[Audit]) -> AuditCheck | None:
    return (
        AuditCheck.objects.filter(audit__in=audits, required=True, check_name__contains=CANARY_MARK)
        .exclude(verdict=Verdict.PASS)
        .order_by("audit__ended_at", "pk")
        .first()
    )
