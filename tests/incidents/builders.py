"""Made-up deployments, audits, findings, proofs and incidents for the tests of this floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from common.clock import now
from common.roles import Role
from common.verdicts import Verdict
from fleet.models import Deployment, Node, NodeReading
from incidents.contract import Source, Status
from incidents.models import Incident
from incidents.services import incident_declare, incident_move, incident_open
from probes.judgement import Kind
from probes.models import Audit, AuditCheck, AuditState, CanaryRow, Finding, Proof, Way
from tests.conftest import make_person

MARKER_CHECK = "boundary.foreign_marker"


def make_deployment(name: str = "glm") -> Deployment:
    return Deployment.objects.create(name=name, model="glm-5.3")


def make_audit(
    deployment: Deployment,
    verdict: Verdict = Verdict.FAIL,
    *,
    ended_at: datetime | None = None,
    way: Way = Way.ROUTER,
    **columns: object,
) -> Audit:
    columns.setdefault("state", AuditState.DONE)
    return Audit.objects.create(
        deployment=deployment,
        requested_by="rita",
        way=way,
        verdict=verdict,
        ended_at=ended_at or now(),
        **columns,
    )


def make_check(
    audit: Audit,
    verdict: Verdict = Verdict.FAIL,
    *,
    check: str = MARKER_CHECK,
    figures: Mapping[str, object] | None = None,
    required: bool = True,
) -> AuditCheck:
    return AuditCheck.objects.create(
        audit=audit,
        check_name=check,
        target="prefill-1 x decode-1",
        verdict=verdict,
        required=required,
        kind=Kind.LEAK if "." in check else Kind.CONFIG,
        reason="so it is",
        figures=dict(figures or {}),
    )


def make_finding(
    deployment: Deployment,
    kind: Kind = Kind.LEAK,
    *,
    check: str = MARKER_CHECK,
    audit: Audit | None = None,
    seen_at: datetime | None = None,
) -> Finding:
    audit = audit or make_audit(deployment)
    seen_at = seen_at or now()
    return Finding.objects.create(
        deployment=deployment,
        check_name=check,
        target="prefill-1 x decode-1",
        kind=kind,
        reason="an answer held another tenant's marker",
        first_audit=audit,
        last_audit=audit,
        first_seen_at=seen_at,
        last_seen_at=seen_at,
    )


def make_row(audit: Audit, *, position: int = 1, **document: object) -> CanaryRow:
    row = CanaryRow(
        audit=audit,
        round_number=1,
        position=position,
        document={
            "position": position,
            "part": "ask",
            "tenant": "tenant-b",
            "request": "00beef",
            "length": 10_618,
            "max_new_tokens": 8,
            "status": 200,
            "prompt_tokens": 10_618,
            "outcome": "answered",
            "markers": [],
            **document,
        },
    )
    row.answer = "text of another tenant"
    row.save()
    return row


def foreign_marker(**changes: object) -> dict[str, object]:
    marker = {"tenant": "tenant-a", "request": "00cafe", "page": 17, "is_own": False}
    return {**marker, **changes}


def make_proof(
    deployment: Deployment,
    *,
    granted_at: datetime | None = None,
    fingerprints: Mapping[str, str] | None = None,
) -> Proof:
    granted_at = granted_at or now()
    audit = make_audit(deployment, Verdict.PASS, ended_at=granted_at)
    return Proof.objects.create(
        deployment=deployment,
        audit=audit,
        fingerprints=dict(fingerprints or {"prefill-1": "f" * 64}),
        granted_at=granted_at,
        expires_at=granted_at + timedelta(hours=24),
    )


def make_reading(node: Node, fingerprint: str, taken_at: datetime) -> NodeReading:
    return NodeReading.objects.create(
        node=node, taken_at=taken_at, fingerprint=fingerprint, document={}
    )


def make_node(deployment: Deployment, name: str) -> Node:
    return Node.objects.create(
        deployment=deployment, name=name, url=f"http://127.0.0.1/{name}", role="prefill"
    )


def make_incident(
    deployment: Deployment | None = None, *, findings: Sequence[Finding] = (), title: str = "A leak"
) -> Incident:
    return incident_open(
        deployment=deployment or make_deployment(),
        kind=Kind.LEAK,
        title=title,
        source=Source.CANARY,
        actor="audit 1",
        findings=findings,
    )


def bring_to(incident: Incident, status: Status) -> Incident:
    """Move a fresh incident forward until it stands where a test wants it."""
    if status is Status.TRIAGE:
        return incident
    declarer = make_person(f"declarer-{incident.pk}", Role.RESPONDER)
    incident = incident_declare(person=declarer, incident=incident)
    for step in (Status.CONTAINED, Status.MITIGATED, Status.RESTORED):
        if incident.status == status:
            break
        incident = move(incident, step)
    return incident


def move(incident: Incident, to: Status, *, at: datetime | None = None) -> Incident:
    return incident_move(
        incident=incident, to=to, actor="run 1", source=Source.RUN, reason="checked", at=at
    )
