"""Re-reads deployments with a standing proof; a change or a restart voids it and gates anew."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from django.db import transaction

from common.clock import now
from fleet.models import Deployment, NodeReading
from fleet.selectors import deployment_access
from fleet.services import look_at, readings_store
from probes.models import Proof
from probes.outcome import drifted, fingerprints_of, proofs_void
from probes.services import regate_queue

#: How old the last reading of a proved deployment may become.
WATCH_EVERY = timedelta(seconds=30)


def deployments_to_watch() -> list[Deployment]:
    """Answer deployments with a standing proof whose last reading is too old."""
    moment = now()
    proved = Proof.objects.filter(voided_at=None, expires_at__gt=moment).values("deployment")
    fresh = NodeReading.objects.filter(taken_at__gt=moment - WATCH_EVERY).values("node__deployment")
    return list(Deployment.objects.filter(pk__in=proved).exclude(pk__in=fresh))


def drift_check(*, deployment_pk: int) -> str:
    """Read a deployment again; answers why its proof was voided, or nothing where it stands.

    A node that does not answer voids nothing: it opens no door either, since its proof ages.
    """
    deployment = Deployment.objects.get(pk=deployment_pk)
    look = asyncio.run(look_at(deployment_access(deployment)))
    rows = readings_store(deployment=deployment, readings=look.readings)
    if not all(reading.is_read for reading in look.readings):
        return ""
    proof = deployment.proofs.filter(voided_at=None).first()
    if proof is None:
        return ""
    reason = drifted(proof, fingerprints_of(look.readings))
    restarted = [node for node, row in rows.items() if row.changed_from_id is not None]
    if not reason and restarted:
        reason = f"{restarted[0]} restarted since the proof"
    if reason:
        with transaction.atomic():
            proofs_void(deployment=deployment, reason=reason)
            # Once: without a standing proof nobody looks here again, and the tick wakes the audit.
            regate_queue(deployment=deployment)
    return reason
