"""The registry of markers: any text, from anywhere, told by tenant, request, page and audit.

A whole code carries its own proof, so no list of codes is kept: of each request the nonce stands in
its row, and the key of the codes stands here, sealed. Fragments are held against the codes of the
newest requests, written anew for each search. A text that is looked up is not stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.fields.json import KeyTextTransform

from common.clock import now
from common.roles import Role, require_role
from common.trail import record
from fleet.models import Deployment, NodeReading
from probes.canary.rounds import Tenant
from probes.markers import Marker, MarkerIndex, MarkerKey, name_request
from probes.marking.evidence import Finding, Grade
from probes.models import CanaryRow, MarkerSecret

#: So long after its request a marker may still stand in a pool or in a tier behind it.
LIVE_FOR: Final = timedelta(hours=24)
#: Codes that fragments are held against, the newest first.
MOST_LIVE: Final = 100_000
LARGEST_TEXT: Final = 4 * 1024 * 1024
_USUAL_PAGE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a marker in a text comes from; ``row`` is None where its request is not on record.

    Unit of offset and length: characters of the text. ``is_live``: it may still stand in a pool.
    """

    deployment: Deployment
    tenant: str
    request: str
    page: int
    offset: int
    length: int
    view: str
    net_bits: float
    is_sure: bool
    row: CanaryRow | None = None
    planted_at: datetime | None = None

    @property
    def is_live(self) -> bool:
        """Answer whether its request is so young that a pool may still hold it."""
        return self.planted_at is not None and now() - self.planted_at < LIVE_FOR


class TooLong(Exception):
    """A text is longer than is looked through."""


def secret_keep(
    *, deployment: Deployment, secret: bytes, tenants: Iterable[Tenant]
) -> MarkerSecret:
    """Store the key of a deployment's markers, once, before the first of them is sent."""
    digest = hashlib.sha256(secret).hexdigest()
    names = {str(one.number): one.name for one in tenants}
    with transaction.atomic():
        kept = MarkerSecret.objects.filter(deployment=deployment, digest=digest).first()
        if kept is None:
            kept = MarkerSecret(deployment=deployment, digest=digest)
            kept.secret = secret.hex()
        kept.tenants, kept.last_used_at = names, now()
        kept.save()
    return kept


def trace_as(*, person: User, text: str) -> list[Origin]:
    """Trace a text for a person; that it was looked up is on the trail, the text is not.

    Raises NotAllowed, TooLong, SealBroken.
    """
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="trace a text")
    origins = trace(text)
    record(
        actor=person.get_username(),
        action="text_traced",
        subject=f"sha256 {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}",
        markers=len(origins),
    )
    return origins


def trace(text: str) -> list[Origin]:
    """Answer every marker in a text, the heaviest first. Raises TooLong, SealBroken."""
    if len(text) > LARGEST_TEXT:
        raise TooLong(
            f"the text has {len(text):,} characters and {LARGEST_TEXT:,} are looked through: "
            "send the part that looks foreign"
        )
    secrets = MarkerSecret.objects.select_related("deployment")
    found = [origin for secret in secrets for origin in _trace_under(secret, text)]
    return sorted(found, key=lambda one: (-one.net_bits, one.offset))


def _trace_under(secret: MarkerSecret, text: str) -> Iterator[Origin]:
    index = MarkerIndex(MarkerKey(bytes.fromhex(secret.secret)), _live_markers(secret))
    for finding in index.find(text).findings:
        if finding.grade is not Grade.NOTHING:
            yield _origin_of(secret, finding)


def _live_markers(secret: MarkerSecret) -> Iterator[Marker]:
    """Answer the markers of the newest requests, page by page, as far as they may be live."""
    numbers = {name: int(number) for number, name in secret.tenants.items()}
    page = _page_of(secret.deployment)
    rows = CanaryRow.objects.filter(
        audit__deployment=secret.deployment, audit__queued_at__gt=now() - LIVE_FOR
    ).order_by("-audit__queued_at", "-round_number", "-position")
    left = MOST_LIVE
    for document in rows.values_list("document", flat=True).iterator():
        request, tenant = document.get("request"), numbers.get(document.get("tenant"))
        if not request or tenant is None:
            continue
        pages = min(left, -(-int(document.get("length") or 0) // page))
        yield from (
            Marker(tenant=tenant, request=int(request, 16), page=number) for number in range(pages)
        )
        left -= pages
        if left <= 0:
            return


def _page_of(deployment: Deployment) -> int:
    """Answer the page size with which markers were planted, as the newest reading tells it."""
    sizes = (
        NodeReading.objects.filter(node__deployment=deployment, problem="")
        .order_by("-taken_at")
        .values_list("document__page_size", flat=True)[:8]
    )
    known = [one for one in sizes if isinstance(one, int) and one > 0]
    return min(known, default=_USUAL_PAGE)


def _origin_of(secret: MarkerSecret, finding: Finding) -> Origin:
    marker = finding.marker
    request = name_request(marker.request)
    tenant = secret.tenants.get(str(marker.tenant), f"tenant {marker.tenant}")
    row = (
        CanaryRow.objects.alias(asked=KeyTextTransform("request", "document"))
        .filter(audit__deployment=secret.deployment, asked=request, document__tenant=tenant)
        .select_related("audit")
        .order_by("-audit__queued_at")
        .first()
    )
    return Origin(
        deployment=secret.deployment,
        tenant=tenant,
        request=request,
        page=marker.page,
        offset=finding.offset,
        length=finding.length,
        view=str(finding.view),
        net_bits=round(finding.net_bits, 1),
        is_sure=finding.grade is Grade.ALARM,
        row=row,
        planted_at=None if row is None else row.audit.started_at or row.audit.queued_at,
    )
