"""Verb ``api_token``: makes, lists and revokes the tokens of ``POST /api/gate``."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.exits import UsageError
from common.operator import operator_name
from probes.models import ApiToken
from probes.tokens import MOST_DAYS, TokenError, token_add, token_list, token_revoke


class Command(BaseCommand):
    """``api_token add NAME [--days N] | list | revoke NAME``."""

    help = "tokens with which machines ask for judgements (POST /api/gate)"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what to do, and with which token."""
        words = parser.add_subparsers(dest="word", required=True)
        adding = words.add_parser("add", help="make a token; it is printed once")
        adding.add_argument("name")
        adding.add_argument("--days", type=_days, help="how long it stands; else until revoked")
        words.add_parser("list", help="show names and uses, never a token")
        words.add_parser("revoke", help="end a token at once").add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Do it. Raises UsageError."""
        try:
            self._do(options["word"], options.get("name", ""), options.get("days"))
        except TokenError as fault:
            raise UsageError(str(fault)) from None

    def _do(self, word: str, name: str, days: int | None) -> None:
        if word == "add":
            lasts = timedelta(days=days) if days else None
            self.stdout.write(token_add(name=name, actor=operator_name(), lasts=lasts))
            self.stderr.write("keep it now: it is not shown again")
        elif word == "revoke":
            token_revoke(name=name, actor=operator_name())
            self.stderr.write(f"revoked {name}")
        else:
            for token in token_list():
                used = f"{token.last_used_at:%Y-%m-%d %H:%M}Z" if token.last_used_at else "never"
                self.stdout.write(
                    f"{token.name}  {_state(token)}  by {token.made_by}  last used {used}"
                )


def _state(token: ApiToken) -> str:
    if token.revoked_at:
        return "revoked"
    if token.expires_at is None:
        return "stands"
    return (
        f"{'stands until' if token.is_standing else 'ran out'} {token.expires_at:%Y-%m-%d %H:%M}Z"
    )


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_DAYS:
        raise ArgumentTypeError(f"a whole number from 1 to {MOST_DAYS}")
    return int(text)
