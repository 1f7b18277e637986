"""Command ``postmortem``: exports the post-mortem of an incident."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand

from common.exits import UsageError
from common.operator import operator_name
from incidents.contract import EXPORTERS, IncidentError
from incidents.selectors import incident_find
from incidents.services import postmortem_export_from_shell


class Command(BaseCommand):
    """Writes an export to standard output or into a file."""

    help = "export the post-mortem of an incident"
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Name the incident, the form and the file."""
        parser.add_argument("reference", metavar="INCIDENT", help="such as INC-2026-0001")
        parser.add_argument(
            "--format", dest="form", choices=list(EXPORTERS.all()), default="markdown"
        )
        parser.add_argument("-o", "--output", metavar="FILE", type=Path)

    def handle(
        self,
        *,
        reference: str,
        form: str,
        output: Path | None,
        **_options: object,
    ) -> None:
        """Export. Raises UsageError."""
        try:
            exported = postmortem_export_from_shell(
                actor=operator_name(), incident=incident_find(reference), form=form
            )
        except IncidentError as error:
            raise UsageError(str(error)) from None
        if output is None:
            self.stdout.write(exported.text, ending="")
            return
        try:
            output.write_text(exported.text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {error.strerror}") from None
