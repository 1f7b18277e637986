"""Moves the incident along with its run; safe to repeat after a killed worker."""

from __future__ import annotations

from incidents.contract import Source, Status
from incidents.models import Incident
from incidents.services import incident_move, incident_take_back
from runbooks.contract import Work


def incident_bring(work: Work, to: Status, reason: str) -> None:
    """Bring the incident to a status unless it is there already. Raises IncidentError."""
    incident = Incident.objects.get(pk=work.incident.pk)
    if incident.status == to:
        return
    incident_move(incident=incident, to=to, actor=work.actor, source=Source.RUN, reason=reason)


def incident_fall_back(work: Work, reason: str) -> None:
    """Take the incident back to contained: from beyond it, or from where a sweep took it back.

    The caller has the router's word that everything is out.
    """
    incident = Incident.objects.get(pk=work.incident.pk)
    if incident.status == Status.DECLARED:
        incident_bring(work, Status.CONTAINED, reason)
    if incident.status in {Status.MITIGATED, Status.RESTORED}:
        incident_take_back(incident=incident, reason=reason, actor=work.actor, source=Source.RUN)
