"""Verb ``trace``: tells where the markers in a text come from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.exits import (
    EXIT_FAIL,
    EXIT_INCONCLUSIVE,
    EXIT_PASS,
    UsageError,
    VerdictExit,
)
from common.sealing import SealBroken
from probes.marker_registry import LARGEST_TEXT, Origin, TooLong, trace

_STANDARD_INPUT = "-"


class Command(BaseCommand):
    """``trace FILE [--json]``; exit 1 where a marker is certain, 2 where one is suspected."""

    help = "tell which tenant, request and page the markers in a text come from"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the text."""
        parser.add_argument("file", help="a text; - reads standard input")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Print one line a marker."""
        try:
            origins = trace(_read(options["file"]))
        except (TooLong, SealBroken) as fault:
            raise UsageError(f"trace: {fault}") from None
        if options["json"]:
            self.stdout.write(json.dumps({"markers": [_document(one) for one in origins]}))
        else:
            self.stdout.write("\n".join(map(_line, origins)) or "no marker of ours")
        raise VerdictExit(_exit_of(origins))


def _read(name: str) -> str:
    try:
        if name == _STANDARD_INPUT:
            raw = sys.stdin.buffer.read(4 * LARGEST_TEXT)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(4 * LARGEST_TEXT)
    except OSError as fault:
        raise UsageError(f"trace: {name} cannot be read: {fault.strerror}") from None
    return raw.decode("utf-8", errors="replace")


def _exit_of(origins: list[Origin]) -> int:
    if any(one.is_sure for one in origins):
        return EXIT_FAIL
    return EXIT_INCONCLUSIVE if origins else EXIT_PASS


def _line(one: Origin) -> str:
    told = "certain" if one.is_sure else "suspected"
    sent = "not on record" if one.planted_at is None else f"{one.planted_at:%Y-%m-%d %H:%M:%S} UTC"
    where = "" if one.row is None else f", audit {one.row.audit_id} row {one.row.position}"
    return (
        f"{told}: {one.deployment.name}, {one.tenant}, request {one.request}, page {one.page} "
        f"({one.view}, {one.net_bits} bits beyond chance, characters {one.offset} to "
        f"{one.offset + one.length}; sent {sent}{where})"
    )


def _document(one: Origin) -> dict[str, object]:
    return {
        "deployment": one.deployment.name,
        "tenant": one.tenant,
        "request": one.request,
        "page": one.page,
        "offset": one.offset,
        "length": one.length,
        "view": one.view,
        "net_bits": one.net_bits,
        "certain": one.is_sure,
        "live": one.is_live,
        "planted_at": None if one.planted_at is None else one.planted_at.isoformat(),
        "audit": None if one.row is None else one.row.audit_id,
        "row": None if one.row is None else one.row.position,
    }
