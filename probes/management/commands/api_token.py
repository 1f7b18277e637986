"""Verb ``api_token``: makes, lists and revokes the tokens of ``POST /api/gate``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.exits import UsageError
from common.operator import operator_name
from probes.tokens import TokenError, token_add, token_list, token_revoke


class Command(BaseCommand):
    """``api_token add NAME | list | revoke NAME``."""

    help = "tokens with which machines ask for judgements (POST /api/gate)"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what to do, and with which token."""
        words = parser.add_subparsers(dest="word", required=True)
        words.add_parser("add", help="make a token; it is printed once").add_argument("name")
        words.add_parser("list", help="show names and uses, never a token")
        words.add_parser("revoke", help="end a token at once").add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Do it. Raises UsageError."""
        try:
            self._do(options["word"], options.get("name", ""))
        except TokenError as fault:
            raise UsageError(str(fault)) from None

    def _do(self, word: str, name: str) -> None:
        if word == "add":
            self.stdout.write(token_add(name=name, actor=operator_name()))
            self.stderr.write("keep it now: it is not shown again")
        elif word == "revoke":
            token_revoke(name=name, actor=operator_name())
            self.stderr.write(f"revoked {name}")
        else:
            for token in token_list():
                used = f"{token.last_used_at:%Y-%m-%d %H:%M}Z" if token.last_used_at else "never"
                state = "revoked" if token.revoked_at else "stands"
                self.stdout.write(f"{token.name}  {state}  by {token.made_by}  last used {used}")
