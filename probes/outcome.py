"""Records what an audit found: checks, proof, findings; one transaction, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from common.clock import now
from common.verdicts import WORST_FIRST, Verdict
from fleet.models import Deployment, NodeReading
from fleet.reading import FleetReading, Reading
from fleet.services import readings_store
from probes.judgement import Check, Judgement, Kind, remedy_document
from probes.models import (
    Audit,
    AuditCheck,
    AuditReading,
    AuditState,
    Finding,
    Proof,
)
from probes.signing import bundle_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutcome:
    """What an audit came to; ``cost_tokens`` is what its rounds really sent and asked.

    ``rounds`` are their heads (probes/canary/heads.py).
    ``stored`` are the rows of ``readings_before`` where a sweep has stored them already.
    """

    judgement: Judgement
    readings_before: Sequence[Reading]
    readings_after: Sequence[Reading] = ()
    cost_tokens: int = 0
    has_rounds: bool = False
    rounds: Sequence[Mapping[str, object]] = ()
    stored: Sequence[NodeReading] = ()


@transaction.atomic
def audit_finish(*, audit: Audit, owner: str, outcome: AuditOutcome) -> bool:
    """Store an audit's outcome, unless another worker holds it by now; answers whether it did."""
    held = Audit.objects.select_for_update().filter(pk=audit.pk, lease_owner=owner)
    if not held.exists():
        return False
    _store_readings(audit, outcome)
    _store_checks(audit, outcome.judgement)
    _findings_settle(audit, outcome.judgement)
    _proof_settle(audit, outcome)
    held.update(
        state=AuditState.DONE,
        verdict=outcome.judgement.verdict,
        headline=headline_of(outcome.judgement)[:500],
        skipped=[{"check": one.check, "reason": one.reason} for one in outcome.judgement.skipped],
        cost_tokens=outcome.cost_tokens,
        rounds=[dict(one) for one in outcome.rounds],
        progress={**audit.progress, "label": "done"},
        ended_at=now(),
    )
    return True


def headline_of(judgement: Judgement) -> str:
    """Answer the reason of the check that decides, or what a pass rests on."""
    required = [check for check in judgement.checks if check.required]
    for verdict in WORST_FIRST[:-1]:
        deciding = [check for check in required if check.verdict is verdict]
        if deciding:
            return min(deciding, key=_weight).reason
    if not required:
        return "no required check is left, which proves nothing"
    # A pass says what it excludes; only the search for markers counts its rounds.
    excluded = [f": {check.reason}" for check in required if check.kind is Kind.LEAK]
    return f"all {len(required)} required checks pass{next(iter(excluded), '')}"


def _weight(check: Check) -> int:
    """Order checks of one verdict: a canary's word before a gate's."""
    return 0 if "." in check.check else 1


def _store_readings(audit: Audit, outcome: AuditOutcome) -> None:
    for is_after, readings in ((False, outcome.readings_before), (True, outcome.readings_after)):
        rows = () if is_after else outcome.stored
        if not rows:
            rows = tuple(readings_store(deployment=audit.deployment, readings=readings).values())
        AuditReading.objects.bulk_create(
            AuditReading(audit=audit, reading=row, is_after=is_after) for row in rows
        )


def _store_checks(audit: Audit, judgement: Judgement) -> None:
    AuditCheck.objects.bulk_create(
        AuditCheck(
            audit=audit,
            check_name=check.check,
            target=check.target,
            verdict=check.verdict,
            required=check.required,
            kind=check.kind,
            reason=check.reason,
            figures=dict(check.figures),
        )
        for check in judgement.checks
    )


def _findings_settle(audit: Audit, judgement: Judgement) -> None:
    """Open or refresh a finding per failing check; resolve those whose check now passes.

    Only a pass resolves: a check that was not made says nothing about what it once found.
    """
    still_open = set(
        Finding.objects.filter(deployment=audit.deployment, resolved_at=None).values_list(
            "check_name", "target"
        )
    )
    for check in judgement.checks:
        if check.verdict is Verdict.FAIL:
            _finding_refresh(audit, check, judgement)
        elif check.verdict is Verdict.PASS and (check.check, check.target) in still_open:
            Finding.objects.filter(
                deployment=audit.deployment,
                check_name=check.check,
                target=check.target,
                resolved_at=None,
            ).update(resolved_at=now(), last_audit=audit)


def _finding_refresh(audit: Audit, check: Check, judgement: Judgement) -> None:
    seen = {
        "kind": check.kind,
        "reason": check.reason,
        "figures": dict(check.figures),
        "remedies": [
            remedy_document(one)
            for one in judgement.remedies
            if (one.check, one.target) == (check.check, check.target)
        ],
        "last_audit": audit,
        "last_seen_at": now(),
    }
    Finding.objects.update_or_create(
        deployment=audit.deployment,
        check_name=check.check,
        target=check.target,
        resolved_at=None,
        defaults=seen,
        create_defaults={**seen, "first_audit": audit},
    )


def _proof_settle(audit: Audit, outcome: AuditOutcome) -> None:
    """Grant a proof for a pass with rounds; anything else voids what stands."""
    verdict = outcome.judgement.verdict
    if verdict is not Verdict.PASS:
        proofs_void(
            deployment=audit.deployment,
            reason=f"audit {audit.pk}: {verdict.value.replace('_', ' ')}",
        )
        return
    readings = outcome.readings_after or outcome.readings_before
    if not outcome.has_rounds or not all(one.restart_is_visible for one in readings):
        return
    proofs_void(deployment=audit.deployment, reason=f"renewed by audit {audit.pk}")
    granted_at = now()
    Proof.objects.create(
        deployment=audit.deployment,
        audit=audit,
        fingerprints=fingerprints_of(readings),
        bundle=bundle_of(
            _judged(audit.deployment, readings), outcome.judgement, granted_at=granted_at
        ),
        granted_at=granted_at,
        expires_at=granted_at + timedelta(hours=settings.PROOF_LASTS_HOURS),
    )


def _judged(deployment: Deployment, readings: Sequence[Reading]) -> FleetReading:
    """Answer what was judged, under the terms that the deployment had when the audit began."""
    return FleetReading(
        readings=tuple(readings),
        headroom=deployment.headroom.normalize(),
        advertised=deployment.advertised_context,
    )


def fingerprints_of(readings: Sequence[Reading]) -> dict[str, str]:
    """Answer each node's fingerprint."""
    return {reading.node: reading.fingerprint for reading in readings}


def proofs_void(*, deployment: Deployment, reason: str) -> int:
    """Void every standing proof of a deployment; answers how many that were."""
    return deployment.proofs.filter(voided_at=None).update(
        voided_at=now(), void_reason=reason[:500]
    )


def drifted(proof: Proof, fingerprints: Mapping[str, str]) -> str:
    """Answer why readings no longer carry a proof, or nothing where they do."""
    proved: dict[str, str] = proof.fingerprints
    for node, fingerprint in proved.items():
        if node not in fingerprints:
            return f"{node} is no longer read"
        if fingerprints[node] != fingerprint:
            return f"{node} changed or restarted since the proof"
    added = sorted(set(fingerprints) - set(proved))
    return f"{added[0]} joined since the proof" if added else ""
