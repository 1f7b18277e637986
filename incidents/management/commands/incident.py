"""Command ``incident``: lists incidents, shows one, and verifies its timeline."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import UTC, datetime

from django.core.management.base import BaseCommand

from common.exits import EXIT_FAIL, UsageError, VerdictExit
from common.verdicts import Verdict
from incidents.contract import IncidentError
from incidents.models import Incident
from incidents.selectors import (
    chain_holds_hash,
    chain_state,
    incident_figures,
    incident_find,
    timeline,
)


class Command(BaseCommand):
    """Reads only: nothing is changed and nothing approved from the shell."""

    help = "look at incidents: list, show REF, verify REF"
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Name the three acts."""
        acts = parser.add_subparsers(dest="act", metavar="list|show|verify", required=True)
        listing = acts.add_parser("list", help="all incidents, newest first")
        showing = acts.add_parser("show", help="one incident with its timeline")
        verifying = acts.add_parser("verify", help="whether the timeline is as it was written")
        for act in (showing, verifying):
            act.add_argument("reference", metavar="INCIDENT", help="such as INC-2026-0001")
        verifying.add_argument(
            "--head", metavar="HASH", help="a last hash from an export, which must be in the chain"
        )
        for act in (listing, showing, verifying):
            act.add_argument("--json", action="store_true", help="one JSON object on stdout")

    def handle(self, *, act: str, **options: object) -> None:
        """Do the act. Raises UsageError, and VerdictExit 1 where a chain is broken."""
        is_json = bool(options["json"])
        if act == "list":
            self._list(is_json=is_json)
            return
        try:
            incident = incident_find(str(options["reference"]))
        except IncidentError as error:
            raise UsageError(str(error)) from None
        if act == "show":
            self._show(incident, is_json=is_json)
            return
        head = options["head"]
        self._verify(incident, head=str(head) if head else "", is_json=is_json)

    def _list(self, *, is_json: bool) -> None:
        incidents = Incident.objects.select_related("deployment", "commander")
        if is_json:
            self._dump({"incidents": [_document(incident) for incident in incidents]})
            return
        for incident in incidents:
            self.stdout.write(
                f"{incident.reference}  {incident.status:<10} {incident.deployment}  "
                f"{incident.title}"
            )
        if not incidents:
            self.stdout.write("no incident yet")

    def _show(self, incident: Incident, *, is_json: bool) -> None:
        entries = timeline(incident)
        spans = incident_figures(incident).durations
        if is_json:
            told = [
                {
                    "sequence": one.sequence,
                    "occurred_at": _moment(one.occurred_at),
                    "recorded_at": _moment(one.recorded_at),
                    "source": one.source,
                    "actor": one.actor,
                    "kind": one.kind,
                    "text": one.text,
                    "supersedes": one.supersedes,
                    "digest": one.digest,
                }
                for one in entries
            ]
            self._dump({**_document(incident), "timeline": told})
            return
        self.stdout.write(f"{incident.reference}: {incident.title} ({incident.status})")
        self.stdout.write("  ".join(f"{one.name} {one.words}" for one in spans))
        for one in entries:
            gone = f" (superseded by {one.superseded_by})" if one.superseded_by else ""
            self.stdout.write(
                f"{one.sequence:>4}  {one.occurred_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}  "
                f"{one.source}/{one.actor}: {' '.join(one.text.split())}{gone}"
            )

    def _verify(self, incident: Incident, *, head: str, is_json: bool) -> None:
        state = chain_state(incident)
        reason = state.break_reason
        if state.holds and head and not chain_holds_hash(incident, head):
            reason = f"no entry carries the hash {head[:64]}"
        if is_json:
            self._dump(
                {
                    "incident": incident.reference,
                    "verdict": (Verdict.FAIL if reason else Verdict.PASS).value,
                    "entries": state.entries,
                    "head": state.head,
                    "break": (
                        {"sequence": state.break_sequence, "reason": reason} if reason else None
                    ),
                }
            )
        else:
            self._say_verified(incident, state.entries, state.break_sequence, reason)
        if reason:
            raise VerdictExit(EXIT_FAIL)

    def _say_verified(
        self, incident: Incident, entries: int, sequence: int | None, reason: str
    ) -> None:
        if reason:
            place = f" at entry {sequence}" if sequence else ""
            self.stdout.write(f"{incident.reference}: the timeline breaks{place}: {reason}")
        else:
            self.stdout.write(
                f"{incident.reference}: {entries} entries, all there and as they were written"
            )

    def _dump(self, document: dict[str, object]) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False))


def _document(incident: Incident) -> dict[str, object]:
    moments = incident_figures(incident).moments
    return {
        "reference": incident.reference,
        "title": incident.title,
        "kind": incident.kind,
        "status": incident.status,
        "deployment": incident.deployment.name,
        "commander": incident.commander.get_username() if incident.commander else None,
        "detected_at": _moment(moments.detected_at),
        "declared_at": _moment(moments.declared_at),
        "contained_at": _moment(moments.contained_at),
        "mitigated_at": _moment(moments.mitigated_at),
        "restored_at": _moment(moments.restored_at),
        "closed_at": _moment(moments.closed_at),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="seconds")
