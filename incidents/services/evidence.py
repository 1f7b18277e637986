"""Keeps documents sealed, and opens them only by name, with a reason, on the record."""

from __future__ import annotations

import hashlib

from django.contrib.auth.models import User
from django.db import transaction

from common import trail
from common.roles import require_staff_of_incident
from common.sealing import SealBroken
from incidents.contract import EventKind, IncidentError, Source
from incidents.entries import storable
from incidents.models import Evidence, Incident
from incidents.services.timeline import event_record, incident_lock, require_reason
from probes.models import CanaryRow

_MAX_TITLE_CHARACTERS = 200


@transaction.atomic
def evidence_keep(
    *,
    incident: Incident,
    title: str,
    document: str,
    actor: str,
    source: Source = Source.SYSTEM,
) -> Evidence:
    """Keep a document sealed; its title, size and SHA-256 stand open in the timeline.

    Raises IncidentError where there is nothing to keep.
    """
    held = incident_lock(incident)
    title = storable(" ".join(title.split()))[:_MAX_TITLE_CHARACTERS]
    if not title or not document:
        raise IncidentError("evidence needs a title and a document")
    raw = document.encode()
    evidence = Evidence(
        incident=held,
        number=held.evidence.count() + 1,
        title=title,
        sha256=hashlib.sha256(raw).hexdigest(),
        size_bytes=len(raw),
    )
    evidence.document = document
    evidence.save(force_insert=True)
    event_record(
        incident=held,
        source=source,
        actor=actor,
        kind=EventKind.EVIDENCE_KEPT,
        text=f"Evidence {_name(evidence)} kept sealed: {title} ({len(raw):,} bytes, SHA-256 "
        f"{evidence.sha256})",
        body={
            "evidence": evidence.number,
            "sha256": evidence.sha256,
            "size_bytes": evidence.size_bytes,
        },
    )
    return evidence


@transaction.atomic
def evidence_unseal(*, person: User, evidence: Evidence, reason: str) -> str:
    """Open a kept document; who and why goes into timeline and trail before it is answered.

    Raises NotAllowed, and IncidentError where the reason is missing or the document does not open.
    """
    require_staff_of_incident(person, to="unseal evidence")
    reason = require_reason(reason, to="unseal evidence")
    document = _opened(evidence, _name(evidence))
    if hashlib.sha256(document.encode()).hexdigest() != evidence.sha256:
        raise IncidentError(f"{_name(evidence)} differs from its recorded hash: do not rely on it")
    _record_unseal(
        person=person, incident=evidence.incident, what=f"evidence {_name(evidence)}", reason=reason
    )
    return document


@transaction.atomic
def row_unseal(*, person: User, row: CanaryRow, incident: Incident, reason: str) -> str:
    """Open the answer to a canary row for an incident of the same deployment, on the record.

    Raises NotAllowed, and IncidentError where the reason is missing or the answer does not open.
    """
    require_staff_of_incident(person, to="unseal an answer")
    reason = require_reason(reason, to="unseal an answer")
    if row.audit.deployment_id != incident.deployment_id:
        raise IncidentError(f"{row} is not about the deployment of {incident.reference}")
    what = f"the answer to row {row.position} of round {row.round_number} of audit {row.audit_id}"
    try:
        answer = row.answer
    except SealBroken as error:
        raise IncidentError(f"{what} does not open: {error}") from None
    _record_unseal(person=person, incident=incident, what=what, reason=reason)
    return answer


def _opened(evidence: Evidence, name: str) -> str:
    try:
        return evidence.document
    except SealBroken as error:
        raise IncidentError(f"{name} does not open: {error}") from None


def _record_unseal(*, person: User, incident: Incident, what: str, reason: str) -> None:
    event_record(
        incident=incident,
        source=Source.PERSON,
        actor=person.get_username(),
        kind=EventKind.UNSEALED,
        text=f"Unsealed {what}: {reason}",
    )
    trail.record(
        actor=person.get_username(),
        action="unseal",
        subject=f"{incident.reference} {what}"[:200],
        reason=reason,
    )


def _name(evidence: Evidence) -> str:
    return f"E-{evidence.number:04d}"
