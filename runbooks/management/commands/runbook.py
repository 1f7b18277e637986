"""Verb ``runbook``: shows runbooks and runs; people act on the pages, where approvals are given."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.exits import UsageError
from runbooks.contract import BOOKS
from runbooks.models import Run


class Command(BaseCommand):
    """``runbook list`` or ``runbook show RUN``, each with ``--json``."""

    help = "list runbooks and runs, or show one run"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what to do."""
        parser.add_argument("what", choices=["list", "show"])
        parser.add_argument("run", nargs="?", type=int, help="number of the run")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Print what was asked."""
        if options["what"] == "list":
            self._say(_list_document(), as_json=options["json"])
            return
        run = Run.objects.filter(pk=options["run"]).first()
        if run is None:
            raise UsageError(f"there is no run {options['run']}: see `runbook list`")
        self._say(_run_document(run), as_json=options["json"])

    def _say(self, document: dict[str, list[dict[str, Any]]], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(document))
            return
        for name, rows in document.items():
            self.stdout.write(f"{name}:")
            for row in rows:
                self.stdout.write("  " + "  ".join(str(value) for value in row.values()))


def _list_document() -> dict[str, list[dict[str, Any]]]:
    books = [book.runbook() for book in BOOKS.all().values()]
    runs = Run.objects.select_related("incident")[:50]
    return {
        "runbooks": [
            {"key": book.key, "version": book.version, "title": book.title} for book in books
        ],
        "runs": [
            {
                "run": run.pk,
                "incident": run.incident.reference,
                "title": run.title,
                "state": run.state,
            }
            for run in runs
        ],
    }


def _run_document(run: Run) -> dict[str, list[dict[str, Any]]]:
    return {
        "steps": [
            {
                "position": step.position,
                "state": step.state,
                "title": step.title,
                "says": step.outcome or step.progress,
            }
            for step in run.steps.all()
        ]
    }
