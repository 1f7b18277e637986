"""What a sweep's readings mean: stored, judged, and an audit kept only where there is news.

A sweep that finds what is known leaves readings and counts. A changed or restarted node, or another
verdict of any gate, is kept as an audit with gates alone: that is the re-gate (docs/adr/0013).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import connection, transaction

from common.leases import owner_name
from common.verdicts import Verdict
from fleet.models import Deployment, NodeReading
from fleet.services import Found, readings_keep
from fleet.sweeping import DeploymentLook
from probes.deployment_judge import judge_briefly, judge_readings
from probes.judgement import Check, Judgement
from probes.judging import stale_caches
from probes.models import Audit, AuditState, Proof, Way
from probes.outcome import AuditOutcome, audit_finish, drifted, fingerprints_of, proofs_void
from probes.services import audit_queue
from probes.stale_cache import KEY as STALE_CACHE

#: What the newest finished audit of each deployment had its gates say. A canary's check has a dot
#: in its name; of the gates only that of the advisories has one, before the advisory's own name.
#: What a storage holds of before is judged where an audit is kept: it costs a look at every past,
#: and changes only with a node's fingerprint.
_SAID = """
    SELECT a.deployment_id, md5(COALESCE((
        SELECT string_agg(line, E'\\n' ORDER BY line COLLATE "C") FROM (
            SELECT check_name || ' ' || target || ' ' || verdict || ' ' || required AS line
            FROM probes_auditcheck WHERE audit_id = a.id
                AND (position('.' in check_name) = 0 OR starts_with(check_name, 'advisories.'))
                AND check_name <> 'persistent_cache'
        ) lines
    ), ''))
    FROM (
        SELECT DISTINCT ON (deployment_id) id, deployment_id FROM probes_audit
        WHERE deployment_id = ANY(%s) AND state = 'done'
        ORDER BY deployment_id, queued_at DESC, id DESC
    ) a
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A deployment that a sweep read: ``node_keys`` are its rows by the node's name."""

    look: DeploymentLook
    deployment: Deployment
    node_keys: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One swept deployment, judged, with its stored rows."""

    swept: Swept
    judgement: Judgement
    rows: Sequence[NodeReading]

    @property
    def is_read(self) -> bool:
        """Answer whether every node could be read."""
        return all(one.is_read for one in self.swept.look.readings)

    @property
    def changed(self) -> tuple[str, ...]:
        """Answer the nodes that changed or restarted since they were read last."""
        looks = zip(self.swept.look.readings, self.rows, strict=True)
        return tuple(one.node for one, row in looks if row.changed_from_id is not None)


@transaction.atomic
def swept_settle(swept: Sequence[Swept]) -> list[Verdict]:
    """Store, judge and settle deployments that a sweep read; answers their verdicts in order."""
    cases = _judged(swept)
    proofs = _proofs(cases)
    said = _said(case.swept.deployment.pk for case in cases)
    busy = set(_busy(case.swept.deployment.pk for case in cases))
    for case in cases:
        key = case.swept.deployment.pk
        _void_if_drifted(case, proofs.get(key))
        if key not in busy and _is_news(case, said.get(key)):
            _keep_audit(case)
    return [case.judgement.verdict for case in cases]


def _judged(swept: Sequence[Swept]) -> list[_Case]:
    rows = iter(readings_keep(found=[one for each in swept for one in _found(each)]))
    return [
        _Case(
            swept=one,
            judgement=judge_briefly(one.look.access, one.look.readings),
            rows=[next(rows) for _ in one.look.looks],
        )
        for one in swept
    ]


def _found(swept: Swept) -> list[Found]:
    return [
        Found(
            node_key=swept.node_keys[look.reading.node],
            reading=look.reading,
            outcome=look.outcome,
        )
        for look in swept.look.looks
    ]


def _proofs(cases: Iterable[_Case]) -> dict[int, Proof]:
    keys = [case.swept.deployment.pk for case in cases]
    return {
        one.deployment_id: one for one in Proof.objects.filter(deployment__in=keys, voided_at=None)
    }


def _busy(deployments: Iterable[int]) -> Iterable[int]:
    """Answer the deployments whose audit is under way: it reads and judges for itself."""
    live = Audit.objects.exclude(state__in=[AuditState.DONE, AuditState.STOPPED])
    return live.filter(deployment__in=list(deployments)).values_list("deployment", flat=True)


def _said(deployments: Iterable[int]) -> dict[int, str]:
    with connection.cursor() as cursor:
        cursor.execute(_SAID, [list(deployments)])
        return dict(cursor.fetchall())


def _void_if_drifted(case: _Case, proof: Proof | None) -> None:
    """Void a proof that the nodes no longer carry; a silent node voids nothing, its proof ages."""
    if proof is None or not case.is_read:
        return
    reason = drifted(proof, fingerprints_of(case.swept.look.readings))
    if not reason and case.changed:
        reason = f"{case.changed[0]} restarted since the proof"
    if reason:
        proofs_void(deployment=case.swept.deployment, reason=reason)


def _is_news(case: _Case, said: str | None) -> bool:
    """Answer whether these readings say anything that the newest audit did not.

    A node that did not answer is no news by itself, but a fail beside it is.
    """
    if not case.is_read and case.judgement.verdict is not Verdict.FAIL:
        return False
    return bool(case.changed) or said != digest_of(case.judgement.checks)


def digest_of(checks: Iterable[Check]) -> str:
    """Answer the same digest of what gates said as ``_SAID`` makes of stored checks."""
    lines = sorted(
        f"{one.check} {one.target} {one.verdict} {'true' if one.required else 'false'}".encode()
        for one in checks
        if one.check != STALE_CACHE
        and ("." not in one.check or one.check.startswith("advisories."))
    )
    return hashlib.md5(b"\n".join(lines), usedforsecurity=False).hexdigest()


def _keep_audit(case: _Case) -> None:
    audit = audit_queue(
        deployment=case.swept.deployment,
        actor="sweep",
        trigger="drift" if case.changed else "sweep",
        way=Way.NONE,
    )
    owner = owner_name()
    Audit.objects.all().claim(audit.pk, owner=owner)
    outcome = AuditOutcome(
        judgement=judge_readings(
            case.swept.look.access,
            case.swept.look.readings,
            also=stale_caches(case.swept.deployment, case.swept.look.readings),
        ),
        readings_before=case.swept.look.readings,
        stored=case.rows,
    )
    audit_finish(audit=audit, owner=owner, outcome=outcome)
    Audit.objects.all().release(audit.pk, owner=owner)
