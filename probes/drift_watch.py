"""Re-reads deployments with a standing proof and voids it when a node changed or restarted."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from common.clock import now
from fleet.models import Deployment, NodeReading
from fleet.selectors import deployment_access
from fleet.services import look_at, readings_store
from probes.models import Proof
from probes.outcome import drifted, fingerprints_of, proofs_void

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
    readings_store(deployment=deployment, readings=look.readings)
    if not all(reading.is_read for reading in look.readings):
        return ""
    proof = deployment.proofs.filter(voided_at=None).first()
    if proof is None:
        return ""
    reason = drifted(proof, fingerprints_of(look.readings))
    if reason:
        proofs_void(deployment=deployment, reason=reason)
    return reason
