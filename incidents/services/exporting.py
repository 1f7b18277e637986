"""Hands a post-mortem out, and records who took it."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction

from common import trail
from common.registry import UnknownKey
from common.roles import require_staff_of_incident
from incidents.contract import EXPORTERS, IncidentError
from incidents.models import Incident
from incidents.selectors.postmortems import postmortem_build


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A post-mortem as a file."""

    file_name: str
    media_type: str
    text: str


@transaction.atomic
def postmortem_export(*, person: User, incident: Incident, form: str) -> Exported:
    """Answer a post-mortem in a registered form, for a person. Raises NotAllowed, IncidentError."""
    require_staff_of_incident(person, to="export a post-mortem")
    return _export(incident, form, actor=person.get_username())


@transaction.atomic
def postmortem_export_from_shell(*, actor: str, incident: Incident, form: str) -> Exported:
    """Answer a post-mortem for an operating-system user of this machine. Raises IncidentError."""
    return _export(incident, form, actor=actor)


def _export(incident: Incident, form: str, *, actor: str) -> Exported:
    try:
        exporter = EXPORTERS.get(form)
    except UnknownKey as error:
        raise IncidentError(f"{error}; there is {', '.join(EXPORTERS.all())}") from None
    postmortem = postmortem_build(incident)
    # Into the trail, not the timeline: an export must not change the hash that it carries.
    trail.record(
        actor=actor,
        action="export post-mortem",
        subject=incident.reference,
        form=form,
        head=postmortem.chain.head,
    )
    return Exported(
        file_name=f"{incident.reference}.{exporter.suffix}",
        media_type=exporter.media_type,
        text=exporter.render(postmortem),
    )
