"""Makes, checks and revokes the tokens with which machines ask for judgements."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q

from common import trail
from common.clock import now
from fleet.services import Actor, actor_name
from probes.models import ApiToken

#: Judgements that one token may ask for in a minute.
MOST_A_MINUTE = 60
#: The longest life that can be asked for; longer than that is until revoked.
MOST_DAYS = 3650
_MINUTE = timedelta(minutes=1)
_PREFIX = "pwt_"
_BYTES = 32


class TokenError(Exception):
    """A token cannot be made or revoked; the text is one line and says why."""


class TokenUnknown(Exception):
    """No such token stands; whether it never did, ran out or was revoked is not told."""


class AskedTooOften(Exception):
    """The token has asked as often as it may in this minute."""


@transaction.atomic
def token_add(*, name: str, actor: Actor, lasts: timedelta | None = None) -> str:
    """Make a token and answer its text, which is never shown again.

    Without ``lasts`` it stands until it is revoked. Raises NotAllowed, TokenError.
    """
    made_by = actor_name(actor, to="issue an API token")
    if ApiToken.objects.filter(name=name).exists():
        raise TokenError(f"a token called {name} was made already: choose another name")
    text = f"{_PREFIX}{secrets.token_urlsafe(_BYTES)}"
    token = ApiToken(name=name, digest=_digest(text), made_by=made_by)
    token.expires_at = token.made_at + lasts if lasts else None
    try:
        token.full_clean()
    except ValidationError as fault:
        raise TokenError(f"{name}: {' '.join(fault.messages)}") from None
    token.save()
    ends = token.expires_at.isoformat() if token.expires_at else None
    trail.record(actor=made_by, action="api token added", subject=name, expires_at=ends)
    return text


@transaction.atomic
def token_revoke(*, name: str, actor: Actor) -> None:
    """End a token at once. Raises NotAllowed, TokenError where none of that name stands."""
    revoked_by = actor_name(actor, to="revoke an API token")
    count = ApiToken.objects.filter(name=name, revoked_at=None).update(revoked_at=now())
    if not count:
        raise TokenError(f"no token called {name} stands")
    trail.record(actor=revoked_by, action="api token revoked", subject=name)


def token_list() -> list[ApiToken]:
    """Answer every token by name, those that stand before those that are over."""
    return sorted(ApiToken.objects.all(), key=lambda one: not one.is_standing)


@transaction.atomic
def token_use(*, text: str) -> ApiToken:
    """Answer the token that a caller shows and count the use. Raises TokenUnknown, AskedTooOften.

    Only the digest is looked up, so the time that takes tells nothing of the text.
    """
    at = now()
    standing = ApiToken.objects.select_for_update().filter(
        Q(expires_at=None) | Q(expires_at__gt=at), digest=_digest(text), revoked_at=None
    )
    token = standing.first()
    if token is None:
        raise TokenUnknown
    if token.minute_began_at is None or at - token.minute_began_at >= _MINUTE:
        token.minute_began_at, token.asked_in_minute = at, 0
    if token.asked_in_minute >= MOST_A_MINUTE:
        raise AskedTooOften
    token.asked_in_minute += 1
    token.last_used_at = at
    token.save(update_fields=["minute_began_at", "asked_in_minute", "last_used_at"])
    return token


def _digest(text: str) -> str:
    # A plain hash is enough: the token itself holds 256 random bits.
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()
