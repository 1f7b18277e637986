"""Moves the incident along with its run; safe to repeat after a killed worker."""

from __future__ import annotations

from incidents.contract import Source, Status
from incidents.models import Incident
from incidents.services import incident_move, incident_take_back
from runbooks.contract import Work


def incident_bring(work: Work, to: Status, reason: str) -> None:
    """Bring the incident to a status unless it is there already. Raises IncidentError.

    What restores after a containment that was renewed has mitigated too, by the same check.
    """
    incident = Incident.objects.get(pk=work.incident.pk)
    if incident.status == to:
        return
    if to is Status.RESTORED and incident.status == Status.CONTAINED:
        incident_bring(work, Status.MITIGATED, reason)
    incident_move(incident=incident, to=to, actor=work.actor, source=Source.RUN, reason=reason)


def incident_fall_back(work: Work, reason: str) -> None:
    """Take the incident back to contained: from beyond it, or from where a sweep took it back.

    The caller has the router's word that everything is out.
    """
    incident = Incident.objects.get(pk=work.incident.pk)
    if incident.status == Status.DECLARED:
        incident_bring(work, Status.CONTAINED, reason)
    incident_give_up(work, reason)


def incident_give_up(work: Work, reason: str) -> None:
    """Take the incident back from beyond contained, to whatever its workers' standing allows."""
    incident = Incident.objects.get(pk=work.incident.pk)
    if incident.status in {Status.MITIGATED, Status.RESTORED}:
        incident_take_back(incident=incident, reason=reason, actor=work.actor, source=Source.RUN)
