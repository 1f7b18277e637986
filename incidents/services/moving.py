"""Moves incidents forward, takes them back, and closes them."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from common import trail
from common.clock import now
from common.roles import Role, require_role
from incidents.contract import FOLLOWS, EventKind, IncidentError, Source, Status, is_reached
from incidents.models import Incident
from incidents.selectors.audits import failed_since_restore
from incidents.selectors.containment import is_still_contained
from incidents.services.timeline import (
    event_record,
    incident_lock,
    require_past,
    require_reason,
)
from probes.selectors import proof_standing

#: Which moment a forward move sets. Declaring and closing are a person's own acts.
_MOMENT_OF = {
    Status.CONTAINED: "contained_at",
    Status.MITIGATED: "mitigated_at",
    Status.RESTORED: "restored_at",
}
_MOMENTS = ("declared_at", "contained_at", "mitigated_at", "restored_at")


@transaction.atomic
def incident_move(  # noqa: PLR0913 - a move has this many facts, all by keyword
    *,
    incident: Incident,
    to: Status,
    actor: str,
    source: Source,
    reason: str,
    at: datetime | None = None,
) -> Incident:
    """Move an incident one status forward; one that is there already stays as it is.

    That makes it safe to repeat after a worker was killed. Declaring, closing and going back have
    services of their own. Raises IncidentError.
    """
    to = Status(to)
    held = incident_lock(incident)
    if held.status == to:
        return held
    _require_forward(held, to)
    reason = require_reason(reason, to=f"move {held.reference} to {to}")
    at = at or now()
    _require_after_last_moment(held, at)
    before = held.status
    held.status = to
    setattr(held, _MOMENT_OF[to], at)
    if to is Status.CONTAINED:
        held.impact_end_at = at
    held.save(update_fields=["status", _MOMENT_OF[to], "impact_end_at"])
    event_record(
        incident=held,
        source=source,
        actor=actor,
        kind=EventKind.MOVED,
        text=f"{to.value.capitalize()}: {reason}",
        body={"before": before, "after": to.value},
        occurred_at=at,
    )
    return Incident.objects.get(pk=held.pk)


@transaction.atomic
def incident_move_by_hand(
    *, person: User, incident: Incident, to: Status, reason: str, at: datetime | None = None
) -> Incident:
    """Move an incident that no run works on, on a commander's word.

    Raises NotAllowed, IncidentError.
    """
    require_role(person, Role.COMMANDER, to="move an incident by hand")
    moved = incident_move(
        incident=incident,
        to=to,
        actor=person.get_username(),
        source=Source.PERSON,
        reason=reason,
        at=at,
    )
    _trail(person, f"move incident to {to.value}", moved)
    return moved


@transaction.atomic
def incident_take_back(
    *,
    incident: Incident,
    reason: str,
    actor: str,
    source: Source,
    at: datetime | None = None,
) -> Incident:
    """Take an incident back to contained, where its workers are still out, else to declared.

    The moments that it had reached stay on the row; they count again only when it is there again.
    ``at`` is the moment from which it no longer stood, never before the one at which it did.
    One that has nothing to give up stays as it is. Raises IncidentError where it is closed.
    """
    held = incident_lock(incident)
    if held.status == Status.CLOSED:
        raise IncidentError(f"{held.reference} is closed; what is new opens a new incident")
    to = Status.CONTAINED if is_still_contained(held) else Status.DECLARED
    before = Status(held.status)
    if to is before or to not in FOLLOWS[before] or is_reached(before, status=to):
        return held
    reason = require_reason(reason, to=f"take {held.reference} back")
    at = max(min(at or now(), now()), _last_moment(held) or held.opened_at)
    held.status = to
    held.impact_end_at = _impact_end_after(held, before=before, to=to, at=at)
    held.save(update_fields=["status", "impact_end_at"])
    event_record(
        incident=held,
        source=source,
        actor=actor,
        kind=EventKind.TAKEN_BACK,
        text=f"Taken back from {before.value} to {to.value}: {reason}",
        body={"before": before.value, "after": to.value},
        occurred_at=at,
    )
    return Incident.objects.get(pk=held.pk)


@transaction.atomic
def incident_close(*, person: User, incident: Incident, summary: str) -> Incident:
    """Close a restored incident, or one in triage as a false alarm; both need a standing proof.

    Raises NotAllowed, IncidentError.
    """
    require_role(person, Role.COMMANDER, to="close an incident")
    held = incident_lock(incident)
    before = Status(held.status)
    if Status.CLOSED not in FOLLOWS[before]:
        raise IncidentError(
            f"{held.reference} is {before.value}; it closes once it is restored, or from triage "
            "as a false alarm"
        )
    summary = require_reason(summary, to=f"close {held.reference}")
    _require_proved(held)
    held.status = Status.CLOSED
    held.closed_at = now()
    held.save(update_fields=["status", "closed_at"])
    word = "Closed as a false alarm" if before is Status.TRIAGE else "Closed"
    event_record(
        incident=held,
        source=Source.PERSON,
        actor=person.get_username(),
        kind=EventKind.CLOSED,
        text=f"{word}: {summary}",
        body={"before": before.value, "after": Status.CLOSED.value},
        occurred_at=held.closed_at,
    )
    _trail(person, "close incident", held)
    return Incident.objects.get(pk=held.pk)


def _require_forward(held: Incident, to: Status) -> None:
    before = Status(held.status)
    if to in FOLLOWS[before] and to in _MOMENT_OF and is_reached(before, status=to):
        return
    if to is Status.DECLARED and before is Status.TRIAGE:
        raise IncidentError(f"{held.reference} is in triage: a person declares it")
    if to is Status.CLOSED:
        raise IncidentError(f"{held.reference} is closed by a commander, not moved there")
    raise IncidentError(
        f"{held.reference} is {before.value} and cannot be moved to {to.value}; going back is "
        "taking it back"
    )


def _last_moment(held: Incident) -> datetime | None:
    """Answer the latest moment that an incident reached and still stands at."""
    reached = (
        getattr(held, name)
        for name in _MOMENTS
        if is_reached(Status(name.removesuffix("_at")), status=Status(held.status))
    )
    return max((moment for moment in reached if moment is not None), default=None)


def _require_after_last_moment(held: Incident, at: datetime) -> None:
    require_past(at, what="a move")
    reached = [
        (getattr(held, name), name.removesuffix("_at"))
        for name in _MOMENTS
        if is_reached(Status(name.removesuffix("_at")), status=Status(held.status))
    ]
    for moment, word in reached:
        if moment is not None and at < moment:
            raise IncidentError(f"{held.reference} was {word} at {moment:%H:%M:%S}, after that")


def _impact_end_after(
    held: Incident, *, before: Status, to: Status, at: datetime
) -> datetime | None:
    if to is Status.DECLARED:
        return None
    return at if before is Status.RESTORED else held.impact_end_at


def _require_proved(held: Incident) -> None:
    if proof_standing(held.deployment) is None:
        raise IncidentError(
            f"{held.deployment} has no standing proof; run an audit that passes, then close"
        )
    failed = failed_since_restore(held)
    if failed is not None:
        raise IncidentError(
            f"audit {failed.audit} ended after the restore and does not let it stand: "
            f"{failed.reason}"
        )


def _trail(person: User, action: str, incident: Incident) -> None:
    trail.record(actor=person.get_username(), action=action, subject=incident.reference)
