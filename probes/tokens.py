"""Makes, checks and revokes the tokens with which machines ask for judgements."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import transaction

from common import trail
from common.clock import now
from probes.models import ApiToken

#: Judgements that one token may ask for in a minute.
MOST_A_MINUTE = 60
_MINUTE = timedelta(minutes=1)
_PREFIX = "pwt_"
_BYTES = 32


class TokenError(Exception):
    """A token cannot be made or revoked; the text is one line and says why."""


class TokenUnknown(Exception):
    """No such token stands; whether it never did or was revoked is not told."""


class AskedTooOften(Exception):
    """The token has asked as often as it may in this minute."""


@transaction.atomic
def token_add(*, name: str, actor: str) -> str:
    """Make a token and answer its text, which is never shown again. Raises TokenError."""
    if ApiToken.objects.filter(name=name).exists():
        raise TokenError(f"a token called {name} was made already: choose another name")
    text = f"{_PREFIX}{secrets.token_urlsafe(_BYTES)}"
    token = ApiToken(name=name, digest=_digest(text), made_by=actor)
    try:
        token.full_clean()
    except ValidationError as fault:
        raise TokenError(f"{name}: {' '.join(fault.messages)}") from None
    token.save()
    trail.record(actor=actor, action="api token added", subject=name)
    return text


@transaction.atomic
def token_revoke(*, name: str, actor: str) -> None:
    """End a token at once. Raises TokenError where none of that name stands."""
    count = ApiToken.objects.filter(name=name, revoked_at=None).update(revoked_at=now())
    if not count:
        raise TokenError(f"no token called {name} stands")
    trail.record(actor=actor, action="api token revoked", subject=name)


def token_list() -> list[ApiToken]:
    """Answer every token, revoked ones too, by name."""
    return list(ApiToken.objects.all())


@transaction.atomic
def token_use(*, text: str) -> ApiToken:
    """Answer the token that a caller shows and count the use. Raises TokenUnknown, AskedTooOften.

    Only the digest is looked up, so the time that takes tells nothing of the text.
    """
    standing = ApiToken.objects.select_for_update().filter(digest=_digest(text), revoked_at=None)
    token = standing.first()
    if token is None:
        raise TokenUnknown
    at = now()
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
