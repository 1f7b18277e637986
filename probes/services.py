"""Queues audits and records what they found: the doors of this floor come through here."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction

from common.clock import now
from common.roles import Role, require_role
from common.trail import record
from fleet.models import Deployment
from fleet.services import readings_take
from probes.models import Acceptance, Audit, AuditState, Way
from probes.orders import USUAL_PLANS

#: What an audit may take before the tick ends it.
AUDIT_LASTS = timedelta(minutes=30)
_SEED_BITS = 62


class AuditError(Exception):
    """What was asked cannot be done to this deployment; the text says why and what can."""


def audit_queue(  # noqa: PLR0913 - keyword-only, and each is asked for by some door
    *,
    deployment: Deployment,
    actor: str,
    trigger: str,
    way: Way = Way.ROUTER,
    seeds: Sequence[int] = (),
    plans: Sequence[str] = (),
    acceptance: Acceptance | None = None,
    is_cordoning: bool = False,
) -> Audit:
    """Store an audit for the workers; each seed is one canary round of each plan.

    Without plans named, those of the deployment are run, or the boundary alone.
    The caller wakes a worker after its commit; the tick finds the row in any case.
    """
    rounds = list(seeds) or [secrets.randbits(_SEED_BITS)]
    return Audit.objects.create(
        deployment=deployment,
        requested_by=actor,
        trigger=trigger,
        way=way,
        plans=[] if way == Way.NONE else [*(plans or deployment.plans or USUAL_PLANS)],
        seeds=[] if way == Way.NONE else rounds,
        acceptance=acceptance,
        is_cordoning=is_cordoning,
        deadline_at=now() + AUDIT_LASTS,
        progress={"done": 0, "total": 0, "label": "queued"},
    )


@transaction.atomic
def audit_request(*, person: User, deployment: Deployment, plans: Sequence[str] = ()) -> Audit:
    """Queue an audit that a person asked for, with these plans or with those of the deployment.

    Raises NotAllowed, AuditError.
    """
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="run an audit")
    _require_nothing_under_way(deployment)
    actor = person.get_username()
    audit = audit_queue(deployment=deployment, actor=actor, trigger="person", plans=plans)
    record(
        actor=actor, action="audit_requested", subject=deployment.name, plans=", ".join(audit.plans)
    )
    return audit


@transaction.atomic
def audit_queue_alone(
    *, deployment: Deployment, actor: str, way: Way, plans: Sequence[str] = ()
) -> Audit:
    """Queue an audit from the shell, unless one is under way. Raises AuditError."""
    _require_nothing_under_way(deployment)
    record(actor=actor, action="audit_requested", subject=deployment.name)
    return audit_queue(deployment=deployment, actor=actor, trigger="shell", way=way, plans=plans)


@transaction.atomic
def regate_queue(*, deployment: Deployment) -> Audit | None:
    """Queue gates alone for a deployment that drifted, unless an audit is under way anyway."""
    Deployment.objects.select_for_update().get(pk=deployment.pk)
    if deployment.audits.exclude(state__in=[AuditState.DONE, AuditState.STOPPED]).exists():
        return None
    return audit_queue(deployment=deployment, actor="drift", trigger="drift", way=Way.NONE)


def exposure_accept(*, person: User, deployment: Deployment, reason: str) -> Audit:
    """Queue one round on an exposed pair on a named person's word.

    The word is good for one round and for the nodes as they are now. Raises NotAllowed, AuditError.
    """
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="accept an exposure")
    if not reason.strip():
        raise AuditError("say why the round is worth its risk")
    look = readings_take(deployment=deployment)
    with transaction.atomic():
        _require_nothing_under_way(deployment)
        acceptance = Acceptance.objects.create(
            deployment=deployment,
            by=person,
            reason=reason.strip()[:500],
            fingerprints={one.node: one.fingerprint for one in look.readings},
        )
        record(
            actor=person.get_username(),
            action="exposure_accepted",
            subject=deployment.name,
            reason=acceptance.reason,
        )
        return audit_queue(
            deployment=deployment,
            actor=person.get_username(),
            trigger="person",
            acceptance=acceptance,
        )


@transaction.atomic
def cordon_and_probe(*, person: User, deployment: Deployment) -> Audit:
    """Queue an audit that takes the deployment out of its router and probes the pairs directly.

    It goes back only when the audit passes. Raises NotAllowed, AuditError.
    """
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="cordon a deployment")
    _require_nothing_under_way(deployment)
    if not deployment.router_url:
        raise AuditError(f"{deployment} has no router to be taken out of: add its address first")
    record(actor=person.get_username(), action="cordoned_to_probe", subject=deployment.name)
    return audit_queue(
        deployment=deployment,
        actor=person.get_username(),
        trigger="person",
        way=Way.PAIR,
        is_cordoning=True,
    )


def _require_nothing_under_way(deployment: Deployment) -> None:
    """Refuse a second audit: two rounds at once would read each other's markers.

    The caller holds a transaction; the row lock makes two people who press at once take turns.
    """
    Deployment.objects.select_for_update().get(pk=deployment.pk)
    under_way = deployment.audits.exclude(state__in=[AuditState.DONE, AuditState.STOPPED]).first()
    if under_way is not None:
        raise AuditError(f"audit {under_way.pk} of {deployment} is under way: wait for it")


def audit_cancel(*, person: User, audit: Audit) -> None:
    """Pull the kill switch: no request is sent after the one under way. Raises NotAllowed."""
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="stop an audit")
    record(actor=person.get_username(), action="audit_stopped", subject=str(audit))
    audit_stop(audit=audit, problem=f"stopped by {person.get_username()}")


@transaction.atomic
def audit_stop(*, audit: Audit, problem: str) -> None:
    """End an audit without a verdict of its own: it proves nothing."""
    Audit.objects.filter(pk=audit.pk).exclude(state=AuditState.DONE).update(
        state=AuditState.STOPPED,
        verdict="inconclusive",
        problem=problem[:500],
        headline=problem[:500],
        ended_at=now(),
    )


def audits_overdue() -> Iterable[Audit]:
    """Answer audits that overran their deadline and that nobody holds."""
    return Audit.objects.free().filter(
        state__in=[AuditState.QUEUED, AuditState.RUNNING], deadline_at__lt=now()
    )
