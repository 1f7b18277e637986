"""Writes of what people vouch for: given with a reason and an expiry, withdrawn, never edited."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction

from common.clock import now
from common.roles import Role, require_role
from common.trail import record
from fleet.models import Attestation, Deployment, Node

_ROLES = (Role.RESPONDER, Role.COMMANDER)
#: Nobody knows for longer how a process will be started.
LONGEST = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationTerms:
    """What a person vouches for; without a node it is said of every node of the deployment."""

    key: str
    value: str
    reason: str
    until: datetime
    node: Node | None = None


@transaction.atomic
def attestation_add(
    *, person: User, deployment: Deployment, terms: AttestationTerms
) -> Attestation:
    """Store a person's word; it withdraws an older one. Raises NotAllowed, ValidationError."""
    require_role(person, *_ROLES, to="vouch for a setting")
    _check(deployment, terms)
    name = person.get_username()
    older = Attestation.objects.select_for_update().filter(
        deployment=deployment, node=terms.node, key=terms.key, withdrawn_at=None
    )
    older.update(withdrawn_at=now(), withdrawn_by=name)
    given = Attestation(
        deployment=deployment,
        node=terms.node,
        key=terms.key,
        value=terms.value,
        reason=terms.reason,
        by=name,
        until=terms.until,
    )
    given.full_clean()
    given.save()
    record(
        actor=name,
        action="attestation_added",
        subject=_subject(given),
        value=given.value,
        reason=given.reason,
        until=given.until.isoformat(),
    )
    return given


@transaction.atomic
def attestation_withdraw(*, person: User, attestation: Attestation) -> None:
    """Take a word back; what rested on it is judged anew with the next look. Raises NotAllowed."""
    require_role(person, *_ROLES, to="withdraw what was vouched for")
    name = person.get_username()
    standing = Attestation.objects.filter(pk=attestation.pk, withdrawn_at=None)
    if standing.update(withdrawn_at=now(), withdrawn_by=name):
        record(actor=name, action="attestation_withdrawn", subject=_subject(attestation))


def _check(deployment: Deployment, terms: AttestationTerms) -> None:
    moment = now()
    if not moment < terms.until <= moment + LONGEST:
        raise ValidationError(f"It must run out within {LONGEST.days} days, and not before now.")
    if not terms.reason.strip():
        raise ValidationError("Say how you know it.")
    if terms.node is not None and terms.node.deployment_id != deployment.pk:
        raise ValidationError(f"{terms.node} is no node of {deployment}.")


def _subject(attestation: Attestation) -> str:
    place = f"/{attestation.node.name}" if attestation.node else ""
    return f"{attestation.deployment.name}{place} {attestation.key}"
