"""Tells whether a containment still holds, from the workers that Pagewarden took out."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from fleet.models import OutOfRotation
from fleet.rotation_rows import RotationChange, RotationWatch
from incidents.models import Incident


def is_still_contained(incident: Incident) -> bool:
    """Answer whether every worker that was out since the containment is out now, and confirmed so.

    Without a worker known to be out, nothing says that the fault does not serve: not contained.
    Neither is it while the router lists one again, or could not be read for a while.
    """
    watch = RotationWatch.objects.filter(deployment=incident.deployment_id).first()
    if watch is not None and not watch.knows_all_is_out:
        return False
    out_since = Q(put_back_at=None)
    if incident.contained_at is not None:
        out_since |= Q(put_back_at__gte=incident.contained_at)
    rows = OutOfRotation.objects.filter(out_since, deployment=incident.deployment_id)
    latest = {row.url: row for row in rows.order_by("pk")}
    return bool(latest) and all(map(_is_out, latest.values()))


def _is_out(row: OutOfRotation) -> bool:
    return (
        row.put_back_at is None and row.return_ordered_at is None and row.confirmed_at is not None
    )


def changes_untold(incident: Incident) -> QuerySet[RotationChange]:
    """Answer what looks at the router found since the opening and no entry tells yet."""
    return RotationChange.objects.filter(
        deployment=incident.deployment_id,
        pk__gt=incident.rotation_told,
        at__gte=incident.opened_at,
    ).order_by("pk")
