"""Writes timeline entries, each chained to the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from common.chain import digest_link
from common.clock import now
from common.roles import require_staff_of_incident
from incidents.contract import EventKind, IncidentError, Source
from incidents.entries import (
    MAX_TEXT_CHARACTERS,
    Header,
    Plain,
    digest_content,
    plain_body,
    storable,
)
from incidents.models import Incident, TimelineEvent


def incident_lock(incident: Incident) -> Incident:
    """Answer the incident as it stands, held until the transaction ends.

    The lock lets others refer to the row meanwhile (a new run does), only not change it.
    """
    return (
        Incident.objects.select_for_update(no_key=True, of=("self",))
        .select_related("deployment")
        .get(pk=incident.pk)
    )


@transaction.atomic
def event_record(  # noqa: PLR0913 - an entry has this many facts, all by keyword
    *,
    incident: Incident,
    source: Source,
    actor: str,
    kind: str,
    text: str,
    body: Mapping[str, object] | None = None,
    occurred_at: datetime | None = None,
    supersedes: int | None = None,
) -> TimelineEvent:
    """Append one entry under the incident's lock. Raises IncidentError.

    In the chain itself stand incident, moments, source, actor, kind and ``supersedes``; text and
    body stand in it by their digest alone, so that they can be erased and the chain still holds
    (incidents/entries.py). Never pass a key, a prompt or an answer.
    """
    held = incident_lock(incident)
    recorded_at = now()
    occurred_at = occurred_at or recorded_at
    text = _checked_text(text, Source(source))
    require_past(occurred_at, what="an event")
    _require_entry(held, supersedes)
    details = _checked_body(body)
    header = Header(
        incident=held.reference,
        occurred_at=occurred_at,
        recorded_at=recorded_at,
        source=Source(source).value,
        actor=storable(actor),
        kind=str(kind),
        supersedes=supersedes,
    )
    return _append(held, header, text, details)


@transaction.atomic
def note_add(
    *,
    person: User,
    incident: Incident,
    text: str,
    occurred_at: datetime | None = None,
    supersedes: int | None = None,
) -> TimelineEvent:
    """Append what a person has to say; a correction names the note that it supersedes.

    Notes may follow a closed incident too. Raises NotAllowed, IncidentError.
    """
    require_staff_of_incident(person, to="write to an incident's timeline")
    held = incident_lock(incident)
    if supersedes is not None:
        _require_correctable(held, supersedes)
    return event_record(
        incident=held,
        source=Source.PERSON,
        actor=person.get_username(),
        kind=EventKind.NOTE,
        text=text,
        occurred_at=occurred_at,
        supersedes=supersedes,
    )


def require_past(moment: datetime, *, what: str) -> None:
    """Refuse a moment without a time zone, or one that has not come. Raises IncidentError."""
    if moment.tzinfo is None:
        raise IncidentError(f"the moment of {what} needs a time zone; give it in UTC")
    if moment > now():
        raise IncidentError(f"the moment of {what} lies in the future: {moment:%Y-%m-%d %H:%M:%S}")


def require_reason(reason: str, *, to: str) -> str:
    """Answer a reason without its margins. Raises IncidentError where there is none."""
    reason = reason.strip()
    if not reason:
        raise IncidentError(f"say why, to {to}")
    return reason


def _append(held: Incident, header: Header, text: str, details: dict[str, Plain]) -> TimelineEvent:
    sequence = held.head_sequence + 1
    body_digest = digest_content(text=text, body=details)
    digest = digest_link(
        sequence=sequence,
        header=header.fields(),
        body_digest=body_digest,
        previous=held.head_digest,
    )
    event = TimelineEvent.objects.create(
        incident=held,
        sequence=sequence,
        occurred_at=header.occurred_at,
        recorded_at=header.recorded_at,
        source=header.source,
        actor=header.actor,
        kind=header.kind,
        text=text,
        body=details,
        supersedes=header.supersedes,
        body_digest=body_digest,
        previous=held.head_digest,
        digest=digest,
    )
    Incident.objects.filter(pk=held.pk).update(head_sequence=sequence, head_digest=digest)
    return event


def _checked_text(text: str, source: Source) -> str:
    text = storable(text.strip())
    if not text:
        raise IncidentError("an event needs a text")
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    if source is Source.PERSON:
        raise IncidentError(
            f"the text has {len(text):,} characters, at most {MAX_TEXT_CHARACTERS:,} fit into the "
            "timeline; keep the rest as evidence"
        )
    # A machine cannot shorten its words, and its news must not be lost over their length.
    note = f" [cut, {len(text):,} characters in all]"
    return text[: MAX_TEXT_CHARACTERS - len(note)] + note


def _checked_body(body: Mapping[str, object] | None) -> dict[str, Plain]:
    try:
        return plain_body(body)
    except ValueError as error:
        raise IncidentError(str(error)) from None


def _require_entry(held: Incident, supersedes: int | None) -> None:
    if supersedes is not None and not 1 <= supersedes <= held.head_sequence:
        raise IncidentError(f"{held.reference} has no entry {supersedes} that could be superseded")


def _require_correctable(held: Incident, supersedes: int) -> None:
    events = TimelineEvent.objects.filter(incident=held)
    found = events.filter(sequence=supersedes).first()
    if found is None or found.kind != EventKind.NOTE:
        raise IncidentError(
            f"entry {supersedes} of {held.reference} is no note: what Pagewarden recorded itself "
            "is not corrected; add a note beside it"
        )
    later = events.filter(supersedes=supersedes).first()
    if later is not None:
        raise IncidentError(
            f"entry {supersedes} was corrected by entry {later.sequence}: correct that one"
        )
