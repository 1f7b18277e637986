"""Read models of the incident pages: where an incident stands, and its timeline by day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from django.contrib.auth.models import User

from common.roles import Role, has_role
from incidents.charts import timeline_figure
from incidents.contract import EXPORTERS, FOLLOWS, EventKind, Status, is_reached
from incidents.impact import exposure_windows
from incidents.models import Evidence, Incident
from incidents.postmortem import ChainState, Duration, Entry, Moments, Window, durations_of
from incidents.selectors.incidents import standing_moments
from incidents.selectors.timelines import chain_state, status_changes, timeline
from probes.models import CanaryRow, Finding
from probes.round_lines import Marks, row_lines

#: An entry recorded later than this after it happened says so.
_LATE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One status of the way, and whether the incident is there, beyond it, or not yet."""

    status: str
    standing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One entry of the timeline as it is listed."""

    entry: Entry
    is_late: bool
    is_correctable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The entries of one day, by the moment at which they happened."""

    at: datetime
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentPage:
    """All that the incident page shows."""

    incident: Incident
    stages: tuple[Stage, ...]
    moments: Moments
    durations: tuple[Duration, ...]
    windows: tuple[Window, ...]
    days: tuple[Day, ...]
    chain: ChainState
    figure: Mapping[str, Any]
    evidence: tuple[Evidence, ...]
    findings: tuple[Finding, ...]
    exports: tuple[tuple[str, str], ...]
    moves: tuple[str, ...]
    is_commander: bool

    @property
    def can_close(self) -> bool:
        """Answer whether closing may follow."""
        return Status.CLOSED in FOLLOWS[Status(self.incident.status)]


def incident_page(incident: Incident, person: User) -> IncidentPage:
    """Answer all that the page of one incident shows to this person."""
    entries = timeline(incident)
    moments = standing_moments(incident)
    return IncidentPage(
        incident=incident,
        stages=stages_of(Status(incident.status)),
        moments=moments,
        durations=durations_of(moments),
        windows=exposure_windows(incident.impact_start_at, status_changes(incident)),
        days=days_of(entries),
        chain=chain_state(incident),
        figure=timeline_figure(entries, moments),
        evidence=tuple(incident.evidence.defer("sealed_document")),
        findings=tuple(incident.findings.all()),
        exports=tuple((key, one.title) for key, one in EXPORTERS.all().items()),
        moves=moves_by_hand(Status(incident.status)),
        is_commander=has_role(person, Role.COMMANDER),
    )


def stages_of(status: Status) -> tuple[Stage, ...]:
    """Answer every status in order with where the incident stands towards it."""
    return tuple(
        Stage(
            status=one.value,
            standing="now" if one is status else "done" if is_reached(one, status=status) else "",
        )
        for one in Status
    )


def moves_by_hand(status: Status) -> tuple[str, ...]:
    """Answer which statuses a commander may move the incident to, one step forward."""
    own_acts = {Status.DECLARED, Status.CLOSED}
    return tuple(
        one.value
        for one in Status
        if one in FOLLOWS[status] and one not in own_acts and is_reached(status, status=one)
    )


def days_of(entries: tuple[Entry, ...]) -> tuple[Day, ...]:
    """Answer the entries by day, in the order in which things happened."""
    ordered = sorted(entries, key=lambda entry: (entry.occurred_at, entry.sequence))
    return tuple(
        Day(at=at, lines=tuple(_line(entry) for entry in group))
        for at, group in groupby(ordered, key=_midnight)
    )


def _midnight(entry: Entry) -> datetime:
    moment = entry.occurred_at.astimezone(UTC)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _line(entry: Entry) -> Line:
    return Line(
        entry=entry,
        is_late=(entry.recorded_at - entry.occurred_at).total_seconds() > _LATE_S,
        is_correctable=entry.kind == EventKind.NOTE and entry.superseded_by is None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """One sealed answer of an audit, by what may be said of it, and whose markers are in it."""

    row: CanaryRow
    document: Mapping[str, Any]
    marks: tuple[Marks, ...] = ()


def answers_of(audit_pk: int) -> tuple[AnswerLine, ...]:
    """Answer the rows of an audit that hold a sealed answer; fillers answer nothing of note."""
    rows = (
        CanaryRow.objects.filter(audit=audit_pk).exclude(sealed_answer=b"").defer("sealed_answer")
    )
    return tuple(
        AnswerLine(row=line.row, document=line.document, marks=line.marks)
        for line in row_lines(list(rows))
        if not line.is_filler
    )
