"""Estimates from when requests may have been hit, and says in words what the estimate rests on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Max, Q, QuerySet

from common.verdicts import Verdict
from fleet.models import Deployment, NodeReading
from probes.models import AuditCheck, Proof

_EXPOSURE_CHECK = "pair_exposure"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactStart:
    """The earliest moment from which requests may have been hit, and how that is known."""

    at: datetime
    basis: str


def impact_estimate(deployment: Deployment, *, detected_at: datetime) -> ImpactStart:
    """Answer the estimate for something detected at a moment.

    It counts from the last exercised pass, or from the last readings that still showed every node
    as it was proved, where a later one shows a change: the change lies between the two. Without a
    change in sight the pass itself is in doubt from its start. Without a pass it counts from when
    the deployment was added, which bounds nothing, and says so.
    """
    proof = (
        Proof.objects.filter(deployment=deployment, granted_at__lt=detected_at)
        .order_by("-granted_at")
        .first()
    )
    if proof is None:
        start = min(deployment.added_at, detected_at)
        basis = (
            f"Counted from when the deployment was added ({_words(start)}); no proof stood before "
            "the detection, so the fault may be older."
        )
    else:
        unchanged_at = _last_unchanged(proof, detected_at)
        start = unchanged_at or proof.granted_at
        seen = f"all nodes were last read unchanged at {_words(start)}"
        basis = (
            f"Lower bound: audit {proof.audit_id} proved the deployment at "
            f"{_words(proof.granted_at)}, and "
            f"{seen if unchanged_at else 'nothing proved it after that'}."
        )
    return ImpactStart(at=start, basis=basis + _first_exposure(deployment, start, detected_at))


def _last_unchanged(proof: Proof, detected_at: datetime) -> datetime | None:
    """Answer when the last node was still read as proved, before the first change; None without."""
    proved: dict[str, str] = proof.fingerprints
    readings = NodeReading.objects.filter(
        node__deployment=proof.deployment_id,
        node__name__in=list(proved),
        taken_at__gt=proof.granted_at,
        taken_at__lte=detected_at,
        problem="",
    )
    as_proved = Q(pk__in=[])
    for name, fingerprint in proved.items():
        as_proved |= Q(node__name=name, fingerprint=fingerprint)
    changed = readings.exclude(as_proved).order_by("taken_at").first()
    if changed is None:
        return None
    last = _last_of_each(readings.filter(as_proved, taken_at__lt=changed.taken_at))
    unchanged_at = min((last.get(name, proof.granted_at) for name in proved), default=None)
    return None if unchanged_at is None else min(unchanged_at, proof.expires_at)


def _last_of_each(readings: QuerySet[NodeReading]) -> dict[str, datetime]:
    rows = readings.order_by().values_list("node__name").annotate(last=Max("taken_at"))
    return dict(rows)


def _first_exposure(deployment: Deployment, start: datetime, detected_at: datetime) -> str:
    """Answer a sentence about the audit that first saw the band open, or nothing."""
    check = (
        AuditCheck.objects.filter(
            audit__deployment=deployment,
            audit__ended_at__gt=start,
            audit__ended_at__lte=detected_at,
            check_name=_EXPOSURE_CHECK,
            verdict=Verdict.FAIL,
        )
        .select_related("audit")
        .order_by("audit__ended_at", "pk")
        .first()
    )
    if check is None or check.audit.ended_at is None:
        return ""
    return (
        f" Upper bound: audit {check.audit_id} saw the band open at {_words(check.audit.ended_at)}."
    )


def _words(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
