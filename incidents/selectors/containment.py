"""Tells whether a containment still holds, from the workers that Pagewarden took out."""

from __future__ import annotations

from django.db.models import Q

from fleet.models import OutOfRotation
from incidents.models import Incident


def is_still_contained(incident: Incident) -> bool:
    """Answer whether every worker that was out since the containment is out now, and confirmed so.

    Without a worker known to be out, nothing says that the fault does not serve: not contained.
    """
    out_since = Q(put_back_at=None)
    if incident.contained_at is not None:
        out_since |= Q(put_back_at__gte=incident.contained_at)
    rows = OutOfRotation.objects.filter(out_since, deployment=incident.deployment_id)
    latest = {row.url: row for row in rows.order_by("pk")}
    return bool(latest) and all(
        row.put_back_at is None and row.confirmed_at is not None for row in latest.values()
    )
