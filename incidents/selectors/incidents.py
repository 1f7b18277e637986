"""Reads incidents: who may see them, which is open, and when what happened."""

from __future__ import annotations

import re

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Exists, OuterRef, Q, QuerySet

from common.roles import Role, has_role
from fleet.models import Deployment
from incidents.contract import IncidentUnknown, Status, is_reached
from incidents.models import OPEN_STATUSES, Incident
from incidents.postmortem import Moments
from probes.judgement import SECURITY_KINDS
from probes.models import Finding

#: Canary checks are named after plan and oracle (boundary.foreign_marker); gates have no dot.
CANARY_MARK = "."
_REFERENCE = re.compile(r"INC-(\d{4})-(\d{4,9})", re.IGNORECASE | re.ASCII)


def incident_visible_to(person: User | AnonymousUser) -> QuerySet[Incident]:
    """Answer the incidents that a person may see; restricted ones need a role (safety rule 7)."""
    incidents = Incident.objects.select_related("deployment", "commander")
    if has_role(person, Role.RESPONDER, Role.COMMANDER):
        return incidents
    if not person.is_authenticated:
        return incidents.none()
    return incidents.filter(is_restricted=False)


def incident_get(reference: str, person: User | AnonymousUser) -> Incident:
    """Answer the incident of this name. Raises IncidentUnknown, also where it may not be seen."""
    return _named(reference, incident_visible_to(person))


def incident_find(reference: str) -> Incident:
    """Answer the incident of this name, for the command line. Raises IncidentUnknown."""
    return _named(reference, Incident.objects.select_related("deployment", "commander"))


def _named(reference: str, incidents: QuerySet[Incident]) -> Incident:
    parts = _REFERENCE.fullmatch(reference.strip())
    found = (
        incidents.filter(year=int(parts[1]), number=int(parts[2])).first()
        if parts and int(parts[2]) < 1 << 31
        else None
    )
    if found is None:
        raise IncidentUnknown(f"no incident is called {reference[:40]!r}; names read INC-2026-0001")
    return found


def incident_open_of(deployment: Deployment) -> Incident | None:
    """Answer the deployment's open incident; there is never more than one."""
    return Incident.objects.filter(deployment=deployment, status__in=OPEN_STATUSES).first()


def findings_awaiting() -> QuerySet[Finding]:
    """Answer security findings that no incident answers for yet, oldest first.

    One that was seen again after its incident was closed awaits a new one: a closed incident must
    not swallow a new leak. Resolved ones count too: what leaked has leaked.
    """
    answered = Incident.objects.filter(findings=OuterRef("pk")).filter(
        Q(closed_at=None) | Q(closed_at__gte=OuterRef("last_seen_at"))
    )
    return Finding.objects.filter(
        ~Exists(answered), kind__in=list(SECURITY_KINDS), check_name__contains=CANARY_MARK
    ).order_by("first_seen_at", "pk")


def standing_moments(incident: Incident) -> Moments:
    """Answer the moments that hold; one that was taken back is unknown until reached again."""
    status = Status(incident.status)
    return Moments(
        impact_start_at=incident.impact_start_at,
        detected_at=incident.detected_at,
        declared_at=incident.declared_at,
        contained_at=incident.contained_at if is_reached(Status.CONTAINED, status=status) else None,
        mitigated_at=incident.mitigated_at if is_reached(Status.MITIGATED, status=status) else None,
        restored_at=incident.restored_at if is_reached(Status.RESTORED, status=status) else None,
        closed_at=incident.closed_at,
    )
