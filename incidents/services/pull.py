"""Pulls news of the floor below: findings into incidents, ended audits into their timelines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from django.db import transaction

from common.clock import now
from fleet.models import Deployment
from incidents.contract import EventKind, Source, Status
from incidents.models import OPEN_STATUSES, Incident, PulledAudit
from incidents.postmortem import CanaryLine
from incidents.selectors.audits import audits_untold, failed_since_restore
from incidents.selectors.canary import canary_lines
from incidents.selectors.incidents import findings_awaiting
from incidents.services.containment import containment_recheck
from incidents.services.moving import incident_take_back
from incidents.services.opening import (
    deployment_lock,
    finding_title,
    incident_join,
    incident_open,
    open_held,
)
from incidents.services.timeline import event_record, incident_lock
from probes.judgement import Kind
from probes.models import Audit, AuditState, Finding

log = logging.getLogger(__name__)

#: Rows told one by one; the rest is counted, and the audit has them all.
_ROWS_TOLD = 5
#: Order in which kinds of a canary name an incident that starts from several findings.
_WORST_FIRST = (Kind.LEAK, Kind.CORRUPTION, Kind.OVER_LIMIT_SERVED)


def pull_now() -> None:
    """Do all that the tick does for this floor; safe to repeat and to run twice at once."""
    findings_pull()
    audits_pull()
    containments_recheck()
    restores_recheck()


def findings_pull() -> None:
    """Open or join an incident for every security finding that none answers for."""
    for pk in findings_awaiting().order_by().values_list("deployment", flat=True).distinct():
        _guarded(_pull_findings_of, pk, what="findings of deployment")


def audits_pull() -> None:
    """Tell every ended audit of a deployment in its open incident's timeline, once."""
    for pk in _open_incidents():
        _guarded(_pull_audits_of, pk, what="audits of incident")


def containments_recheck() -> None:
    """Tell what looks at routers found, and take back incidents whose workers are listed again."""
    for pk in _open_incidents():
        _guarded(containment_recheck, pk, what="containment of incident")


def restores_recheck() -> None:
    """Take back every restored incident whose deployment failed a check since."""
    for pk in Incident.objects.filter(status=Status.RESTORED).values_list("pk", flat=True):
        _guarded(_recheck, pk, what="restore of incident")


def _open_incidents() -> Sequence[int]:
    return list(
        Incident.objects.filter(status__in=OPEN_STATUSES)
        .order_by("pk")
        .values_list("pk", flat=True)
    )


def _guarded(pull: Callable[[int], None], pk: int, *, what: str) -> None:
    """Do one piece in a transaction of its own, so that one that fails leaves the others be."""
    try:
        with transaction.atomic():
            pull(pk)
    except Exception:
        log.exception("pulling the %s %s failed; the next tick tries again", what, pk)


def _pull_findings_of(deployment_pk: int) -> None:
    deployment = Deployment.objects.get(pk=deployment_pk)
    deployment_lock(deployment)
    # Read under the lock: whoever came before may have answered for them.
    findings = list(findings_awaiting().filter(deployment=deployment))
    if not findings:
        return
    incident = open_held(deployment)
    actor = f"audit {findings[0].last_audit_id}"
    if incident is not None:
        incident_join(incident=incident, findings=findings, source=Source.CANARY, actor=actor)
        return
    worst = min(findings, key=_badness)
    incident_open(
        deployment=deployment,
        kind=Kind(worst.kind),
        title=finding_title(worst),
        source=Source.CANARY,
        actor=actor,
        findings=findings,
    )


def _badness(finding: Finding) -> int:
    return _WORST_FIRST.index(Kind(finding.kind))


def _pull_audits_of(incident_pk: int) -> None:
    held = incident_lock(Incident(pk=incident_pk))
    if not held.is_open:
        return
    for audit in audits_untold(held):
        PulledAudit.objects.create(incident=held, audit=audit)
        _tell_audit(held, audit)
        _tell_markers(held, audit)


def _tell_audit(held: Incident, audit: Audit) -> None:
    event_record(
        incident=held,
        source=Source.AUDIT,
        actor=f"audit {audit.pk}",
        kind=EventKind.AUDIT_ENDED,
        text=_audit_words(audit),
        body={
            "audit": audit.pk,
            "verdict": audit.verdict,
            "cost_tokens": audit.cost_tokens,
            "way": audit.way,
        },
        occurred_at=min(audit.ended_at or now(), now()),
    )


def _audit_words(audit: Audit) -> str:
    asked = f"Audit {audit.pk} ({audit.get_way_display()}, asked by {audit.requested_by})"
    cost = f"It cost {audit.cost_tokens:,} tokens."
    if audit.state == AuditState.STOPPED:
        return (
            f"{asked} was stopped and proves nothing: {audit.problem or 'no reason given'}. {cost}"
        )
    verdict = audit.verdict.replace("_", " ") or "without a verdict"
    said = f": {audit.headline.rstrip('.')}" if audit.headline else ""
    return f"{asked} ended {verdict}{said}. {cost}"


def _tell_markers(held: Incident, audit: Audit) -> None:
    rows = [line for line in canary_lines([audit.pk]) if line.markers]
    if not rows:
        return
    told = " ".join(_row_words(row) for row in rows[:_ROWS_TOLD])
    rest = len(rows) - _ROWS_TOLD
    more = f" {rest} more rows of the audit held foreign markers." if rest > 0 else ""
    event_record(
        incident=held,
        source=Source.CANARY,
        actor=f"audit {audit.pk}",
        kind=EventKind.MARKERS_FOUND,
        text=told + more,
        body={"audit": audit.pk, "rows": len(rows)},
        occurred_at=min(audit.ended_at or now(), now()),
    )


def _row_words(row: CanaryLine) -> str:
    first, *others = row.markers
    length = "an unknown number of" if row.length is None else f"{row.length:,}"
    page = "an unknown page" if first.page is None else f"page {first.page:,}"
    more = f" and {len(others):,} more" if others else ""
    return (
        f"Row {row.position} of round {row.round}: the answer to {row.tenant}'s prompt of {length} "
        f"tokens (status {row.status}) held a marker of {first.tenant}, request {first.request}, "
        f"{page}{more}."
    )


def _recheck(incident_pk: int) -> None:
    held = incident_lock(Incident(pk=incident_pk))
    if held.status != Status.RESTORED:
        return
    failed = failed_since_restore(held)
    if failed is None:
        return
    incident_take_back(
        incident=held,
        reason=f"audit {failed.audit} failed after the restore: {failed.reason}",
        actor=f"audit {failed.audit}",
        source=Source.AUDIT,
    )
