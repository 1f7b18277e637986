"""Tells what became of a containment, and takes back an incident whose workers came back."""

from __future__ import annotations

from fleet.rotation_rows import RotationChange
from fleet.staying_out import NewsKind
from incidents.contract import EventKind, Source, Status
from incidents.models import Incident
from incidents.selectors.containment import changes_untold
from incidents.services.moving import incident_take_back
from incidents.services.timeline import event_record, incident_lock

ACTOR = "router watch"
#: Statuses that rest on workers being out.
_RESTS_ON_IT = frozenset({Status.CONTAINED, Status.MITIGATED})


def containment_recheck(incident_pk: int) -> None:
    """Tell every change of an open incident's router once, and give up what no longer stands.

    The caller holds a transaction. A router that cannot be read moves nothing: it is told.
    """
    held = incident_lock(Incident(pk=incident_pk))
    if not held.is_open:
        return
    for change in changes_untold(held):
        event_record(
            incident=held,
            source=Source.SYSTEM,
            actor=ACTOR,
            kind=EventKind.ROTATION_WATCHED,
            text=change.text,
            body={"change": change.kind, "urls": change.urls, "watch": change.pk},
            occurred_at=change.at,
        )
        Incident.objects.filter(pk=held.pk).update(rotation_told=change.pk)
        if change.kind == NewsKind.LISTED_AGAIN:
            held = _given_up(held, change)


def _given_up(held: Incident, change: RotationChange) -> Incident:
    if Status(held.status) not in _RESTS_ON_IT:
        return held
    return incident_take_back(
        incident=held, reason=change.text, actor=ACTOR, source=Source.SYSTEM, at=change.since_at
    )
