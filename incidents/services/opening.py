"""Opens incidents, adds findings to them, and declares them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.contrib.auth.models import User
from django.db import connection, transaction

from common import trail
from common.clock import now
from common.roles import Role, has_role, require_role, require_staff_of_incident
from fleet.models import Deployment
from incidents.contract import EventKind, IncidentError, Source, Status
from incidents.entries import storable
from incidents.models import OPEN_STATUSES, Incident
from incidents.selectors.impact import impact_estimate
from incidents.services.timeline import event_record, incident_lock, require_past
from probes.judgement import Kind
from probes.models import Finding

#: First half of the advisory lock of numbering; the second is the year.
_NUMBERING_LOCK = 720_575
_MAX_TITLE_CHARACTERS = 200

#: Worst first: an incident carries the worst kind that it holds.
_WORST_KINDS = (Kind.LEAK, Kind.CORRUPTION, Kind.OVER_LIMIT_SERVED, Kind.SECRET)


@transaction.atomic
def incident_open(  # noqa: PLR0913 - an incident has this many facts, all by keyword
    *,
    deployment: Deployment,
    kind: Kind,
    title: str,
    source: Source,
    actor: str,
    findings: Sequence[Finding] = (),
    detected_at: datetime | None = None,
) -> Incident:
    """Open an incident in triage, restricted, with the next number of its year.

    A person opens one through ``finding_declare``, which asks for the role. Raises IncidentError
    where one of the deployment is open.
    """
    deployment_lock(deployment)
    _require_none_open(deployment)
    _require_same_deployment(deployment, findings)
    opened_at = now()
    detected_at = detected_at or _first_sighted(findings, opened_at)
    require_past(detected_at, what="the detection")
    impact = impact_estimate(deployment, detected_at=detected_at)
    incident = Incident.objects.create(
        year=opened_at.year,
        number=_next_number(opened_at.year),
        deployment=deployment,
        title=_checked_title(title),
        kind=Kind(kind),
        opened_at=opened_at,
        detected_at=detected_at,
        impact_start_at=impact.at,
        impact_basis=impact.basis,
    )
    incident.findings.set(findings)
    event_record(
        incident=incident,
        source=source,
        actor=actor,
        kind=EventKind.OPENED,
        text=f"Opened as {_kind_words(kind)}: {incident.title}. {impact.basis}",
        body={"kind": Kind(kind).value, "findings": [finding.pk for finding in findings]},
        occurred_at=opened_at,
    )
    return Incident.objects.get(pk=incident.pk)


@transaction.atomic
def incident_join(
    *, incident: Incident, findings: Sequence[Finding], source: Source, actor: str
) -> Incident:
    """Add findings to an open incident; those that it holds already change nothing.

    A worse kind than its own becomes the incident's kind, so that a leak is not hidden behind a
    smaller fault. Raises IncidentError.
    """
    held = incident_lock(incident)
    _require_open(held)
    _require_same_deployment(held.deployment, findings)
    known = set(held.findings.values_list("pk", flat=True))
    for finding in findings:
        if finding.pk in known:
            continue
        held.findings.add(finding)
        _worsen(held, Kind(finding.kind))
        event_record(
            incident=held,
            source=source,
            actor=actor,
            kind=EventKind.JOINED,
            text=f"{finding.check_name} of {finding.target} ({_kind_words(finding.kind)}) joins: "
            f"{finding.reason}",
            body={"finding": finding.pk, "kind": finding.kind, "audit": finding.last_audit_id},
            occurred_at=_sighted_at(finding, now()),
        )
    return Incident.objects.get(pk=held.pk)


@transaction.atomic
def incident_declare(*, person: User, incident: Incident) -> Incident:
    """Declare an incident that is in triage; a commander who does takes command with it.

    Raises NotAllowed, IncidentError.
    """
    require_staff_of_incident(person, to="declare an incident")
    held = incident_lock(incident)
    if held.status != Status.TRIAGE:
        raise IncidentError(f"{held.reference} is {held.status} already")
    held.status = Status.DECLARED
    held.declared_at = now()
    if has_role(person, Role.COMMANDER):
        held.commander = person
    held.save(update_fields=["status", "declared_at", "commander"])
    under = f"; {person.get_username()} commands" if held.commander else ""
    event_record(
        incident=held,
        source=Source.PERSON,
        actor=person.get_username(),
        kind=EventKind.DECLARED,
        text=f"Declared a security incident{under}",
        body={"before": Status.TRIAGE.value, "after": Status.DECLARED.value},
        occurred_at=held.declared_at,
    )
    _trail(person, "declare incident", held)
    return Incident.objects.get(pk=held.pk)


@transaction.atomic
def command_take(*, person: User, incident: Incident) -> Incident:
    """Make a commander the one who holds the incident. Raises NotAllowed, IncidentError."""
    require_role(person, Role.COMMANDER, to="take command of an incident")
    held = incident_lock(incident)
    _require_open(held)
    if held.commander_id == person.pk:
        return held
    held.commander = person
    held.save(update_fields=["commander"])
    event_record(
        incident=held,
        source=Source.PERSON,
        actor=person.get_username(),
        kind=EventKind.COMMAND_TAKEN,
        text=f"{person.get_username()} takes command",
    )
    _trail(person, "take command", held)
    return Incident.objects.get(pk=held.pk)


@transaction.atomic
def finding_declare(*, person: User, finding: Finding) -> Incident:
    """Declare from any finding: open or join the deployment's incident, and declare it.

    Raises NotAllowed, IncidentError.
    """
    require_staff_of_incident(person, to="declare an incident")
    deployment_lock(finding.deployment)
    incident = open_held(finding.deployment)
    if incident is None:
        incident = incident_open(
            deployment=finding.deployment,
            kind=Kind(finding.kind),
            title=finding_title(finding),
            source=Source.PERSON,
            actor=person.get_username(),
            findings=[finding],
        )
    else:
        incident = incident_join(
            incident=incident,
            findings=[finding],
            source=Source.PERSON,
            actor=person.get_username(),
        )
    if incident.status == Status.TRIAGE:
        incident = incident_declare(person=person, incident=incident)
    return incident


def deployment_lock(deployment: Deployment) -> None:
    """Hold a deployment until the transaction ends, so that one caller at a time opens for it."""
    Deployment.objects.select_for_update(no_key=True).get(pk=deployment.pk)


def open_held(deployment: Deployment) -> Incident | None:
    """Answer the deployment's open incident, held; one that closes meanwhile is not answered."""
    return (
        Incident.objects.select_for_update(no_key=True, of=("self",))
        .filter(deployment=deployment, status__in=OPEN_STATUSES)
        .select_related("deployment")
        .first()
    )


#: What a finding of a security kind means to those who read only the title.
_TITLES = {
    Kind.LEAK: "Another tenant's text in answers of",
    Kind.CORRUPTION: "Answers that did not read their prompts on",
    Kind.OVER_LIMIT_SERVED: "Prompts answered that must be refused on",
}


def finding_title(finding: Finding) -> str:
    """Answer the title of an incident that starts from a finding: what it means, and where."""
    words = _TITLES.get(Kind(finding.kind), f"{_kind_words(finding.kind).capitalize()} on")
    return f"{words} {finding.deployment} ({finding.check_name}, {finding.target})"


def _next_number(year: int) -> int:
    """Answer the next number; the lock lasts to the commit, so that a rollback leaves no gap."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_NUMBERING_LOCK, year])
    last = Incident.objects.filter(year=year).order_by("-number").first()
    return last.number + 1 if last else 1


def _require_none_open(deployment: Deployment) -> None:
    already = open_held(deployment)
    if already is not None:
        raise IncidentError(f"{already.reference} of {deployment} is open: join it")


def _require_open(held: Incident) -> None:
    if not held.is_open:
        raise IncidentError(f"{held.reference} is closed; what is new opens a new incident")


def _require_same_deployment(deployment: Deployment, findings: Iterable[Finding]) -> None:
    for finding in findings:
        if finding.deployment_id != deployment.pk:
            raise IncidentError(f"{finding} belongs to {finding.deployment}, not to {deployment}")


def _first_sighted(findings: Iterable[Finding], moment: datetime) -> datetime:
    return min((_sighted_at(finding, moment) for finding in findings), default=moment)


def _sighted_at(finding: Finding, moment: datetime) -> datetime:
    """Answer when a finding was seen for this incident; an earlier incident had its first sight."""
    was_held = finding.incidents.exclude(closed_at=None).exists()
    return min(finding.last_seen_at if was_held else finding.first_seen_at, moment)


def _worsen(held: Incident, kind: Kind) -> None:
    if kind in _WORST_KINDS and (
        held.kind not in _WORST_KINDS
        or _WORST_KINDS.index(kind) < _WORST_KINDS.index(Kind(held.kind))
    ):
        held.kind = kind
        held.save(update_fields=["kind"])


def _checked_title(title: str) -> str:
    title = storable(" ".join(title.split()))
    if not title:
        raise IncidentError("an incident needs a title")
    if len(title) > _MAX_TITLE_CHARACTERS:
        return title[: _MAX_TITLE_CHARACTERS - 1] + "…"
    return title


def _kind_words(kind: str) -> str:
    return Kind(kind).value.replace("_", " ")


def _trail(person: User, action: str, incident: Incident) -> None:
    trail.record(actor=person.get_username(), action=action, subject=incident.reference)
