"""Command ``fleet``: exports the fleet, imports it, and finds a cluster behind its router."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand

from common.exits import ToolError, UsageError
from common.operator import operator_name
from common.registry import UnknownKey
from fleet.address import parse_url
from fleet.contract import AddressRefused, RouterError
from fleet.discovery import RouterOrder
from fleet.exporting import entry_of_found, fleet_export
from fleet.importing import (
    CANNOT_BE_RETIRED,
    fleet_import,
    router_look,
)
from fleet.portable import DeploymentEntry, DocumentError, fleet_text, read_fleet

#: The file name that means standard input and output.
_PIPE = "-"


class Command(BaseCommand):
    """``fleet export``, ``fleet import FILE [--prune] [--dry-run]``, ``fleet discover URL``."""

    help = "the fleet as JSON: export, import FILE, discover URL"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Name the three acts."""
        acts = parser.add_subparsers(dest="act", metavar="export|import|discover", required=True)
        exporting = acts.add_parser("export", help="every deployment and node; no key is in it")
        importing = acts.add_parser("import", help="store what a file says, all of it or nothing")
        importing.add_argument(
            "file", metavar="FILE", help="a fleet document, - for standard input"
        )
        importing.add_argument(
            "--prune", action="store_true", help="retire nodes that the file no longer lists"
        )
        importing.add_argument(
            "--dry-run", action="store_true", help="say what would be done, and store nothing"
        )
        finding = acts.add_parser("discover", help="what a router lists, as a document to import")
        finding.add_argument("url", metavar="URL", help="the router's address")
        finding.add_argument("--name", required=True, help="of the deployment")
        finding.add_argument("--model", default="", help="as clients name it; else as listed")
        finding.add_argument("--engine", default="", help="of the nodes; else as is usual there")
        finding.add_argument("--kind", default="", help="of router; else told by its answers")
        finding.add_argument("--metrics", default="", metavar="URL", help="the router's Prometheus")
        finding.add_argument("--router-key-file", type=Path, metavar="FILE")
        for act in (exporting, finding):
            act.add_argument("-o", "--output", default=_PIPE, metavar="FILE")

    def handle(self, *, act: str, **options: object) -> None:
        """Do the act. Raises UsageError, ToolError."""
        if act == "import":
            self._import(str(options["file"]), options)
        elif act == "export":
            self._write(fleet_export(), str(options["output"]))
        else:
            self._discover(options)

    def _import(self, name: str, options: dict[str, object]) -> None:
        try:
            text = sys.stdin.read().encode() if name == _PIPE else Path(name).read_bytes()
        except OSError as fault:
            raise UsageError(f"{name} cannot be read: {fault.strerror}") from None
        try:
            changes = fleet_import(
                actor=operator_name(),
                entries=read_fleet(text),
                is_pruning=bool(options["prune"]),
                is_rehearsal=bool(options["dry_run"]),
            )
        except DocumentError as fault:
            raise UsageError(f"nothing was imported from {name}: {fault}") from None
        for change in changes:
            self.stdout.write(str(change))
        if options["dry_run"]:
            self.stderr.write("a dry run: nothing was stored")
        if any(change.what == CANNOT_BE_RETIRED for change in changes):
            raise UsageError(f"{name} cannot be imported with --prune as things stand: see above")

    def _discover(self, options: dict[str, object]) -> None:
        """Print what a router lists; what is not well goes to standard error."""
        order = RouterOrder(
            url=_address(str(options["url"])),
            kind=str(options["kind"]),
            engine=str(options["engine"]),
            model=str(options["model"]),
            metrics_url=str(options["metrics"]),
            key=_key_in(options["router_key_file"]),
        )
        try:
            found = router_look(order=order)
        except UnknownKey as fault:
            raise UsageError(str(fault)) from None
        except RouterError as fault:
            raise ToolError(str(fault)) from None
        self.stderr.write(f"{found.kind}: {found.counts}; {found.readiness}")
        for problem in found.problems:
            self.stderr.write(f"note: {problem}")
        entry = entry_of_found(str(options["name"]), found, metrics_url=order.metrics_url)
        self._write((entry,), str(options["output"]))

    def _write(self, entries: tuple[DeploymentEntry, ...], name: str) -> None:
        text = fleet_text(entries)
        if name == _PIPE:
            self.stdout.write(text, ending="")
            return
        try:
            Path(name).write_text(text, encoding="utf-8")
        except OSError as fault:
            raise UsageError(f"{name} cannot be written: {fault.strerror}") from None


def _address(url: str) -> str:
    """Answer an address, http where none was said. Raises UsageError."""
    url = url if "://" in url else f"http://{url}"
    try:
        parse_url(url)
    except AddressRefused as refusal:
        raise UsageError(str(refusal)) from None
    return url


def _key_in(path: object) -> str:
    """Answer the key in a file. Raises UsageError."""
    if not isinstance(path, Path):
        return ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"the key file {path} cannot be read") from None
