"""What a post-mortem holds: frozen values that exporters and pages render and never add to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

#: Name and version of the published JSON document.
SCHEMA = "pagewarden.postmortem"
SCHEMA_VERSION = 1

AFFECTED_UNKNOWN = (
    "not yet determined: no request log has been classified for this incident, so nothing is "
    "claimed about who was hit"
)

Figure = None | bool | int | float | str | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The moments of an incident that stand; None has not happened, or was taken back."""

    impact_start_at: datetime | None = None
    detected_at: datetime | None = None
    declared_at: datetime | None = None
    contained_at: datetime | None = None
    mitigated_at: datetime | None = None
    restored_at: datetime | None = None
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """One measured span, with the two moments that define it; None where one is missing."""

    name: str
    definition: str
    start_at: datetime | None
    end_at: datetime | None

    @property
    def span(self) -> timedelta | None:
        """Answer end minus start, or None where a moment is missing."""
        if self.start_at is None or self.end_at is None:
            return None
        return self.end_at - self.start_at

    @property
    def words(self) -> str:
        """Answer the span in words, such as "4 h 57 min"."""
        return span_words(self.span)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time in which requests may have been hit; ``end_at`` None is still running."""

    start_at: datetime | None
    end_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """When requests may have been hit, how the start is known, and who was hit."""

    windows: tuple[Window, ...]
    basis: str
    affected: str = AFFECTED_UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who held or did something, by sign-in name."""

    name: str
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One timeline entry with all that its chain link needs, its details left out.

    ``superseded_by`` is the sequence of the correction; ``is_erased`` says that its text is gone.
    """

    sequence: int
    occurred_at: datetime
    recorded_at: datetime
    source: str
    actor: str
    kind: str
    text: str
    supersedes: int | None
    superseded_by: int | None
    is_erased: bool
    body_digest: str
    previous: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureLine:
    """One figure of a check."""

    name: str
    value: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSide:
    """What one audit said of a check."""

    audit: int
    verdict: str
    figures: tuple[FigureLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """One check of one target in the first and the last audit; None where it was not made."""

    check: str
    target: str
    before: GateSide | None
    after: GateSide | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerLine:
    """A foreign marker in an answer: whose prompt it was planted in, and where there."""

    tenant: str
    request: str
    page: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryLine:
    """One request of a canary round; neither prompt nor answer. Unit of lengths: tokens."""

    audit: int
    round: int
    position: int
    part: str
    tenant: str
    length: int | None
    asked_tokens: int | None
    status: int | None
    prompt_tokens: int | None
    outcome: str
    markers: tuple[MarkerLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLine:
    """One finding that the incident holds."""

    check: str
    target: str
    kind: str
    reason: str
    first_seen_at: datetime
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """One kept document by its hash; its content stays sealed."""

    number: int
    title: str
    sha256: str
    size_bytes: int
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """The timeline's hash chain: its entries, its last hash, and where it breaks, if it does."""

    entries: int
    head: str
    break_sequence: int | None = None
    break_reason: str = ""

    @property
    def holds(self) -> bool:
        """Answer whether every entry is there and as it was written."""
        return self.break_sequence is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the incident is about."""

    reference: str
    title: str
    kind: str
    status: str
    is_restricted: bool
    deployment: str
    model: str
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmortem:
    """Everything that an export shows. ``actions`` are the entries that runs wrote."""

    subject: Subject
    generated_at: datetime
    people: tuple[Person, ...]
    impact: Impact
    moments: Moments
    durations: tuple[Duration, ...]
    findings: tuple[FindingLine, ...]
    first_audit: int | None
    last_audit: int | None
    gates: tuple[GateLine, ...]
    canary: tuple[CanaryLine, ...]
    actions: tuple[Entry, ...]
    evidence: tuple[EvidenceLine, ...]
    entries: tuple[Entry, ...]
    chain: ChainState
    open_questions: tuple[str, ...]


def durations_of(moments: Moments) -> tuple[Duration, ...]:
    """Answer the spans of the main job, each with its definition."""
    return (
        Duration(
            name="detect",
            definition="from the start of impact to the first finding",
            start_at=moments.impact_start_at,
            end_at=moments.detected_at,
        ),
        Duration(
            name="declare",
            definition="from the first finding to the declaration",
            start_at=moments.detected_at,
            end_at=moments.declared_at,
        ),
        Duration(
            name="contain",
            definition="from the declaration to the containment",
            start_at=moments.declared_at,
            end_at=moments.contained_at,
        ),
        Duration(
            name="restore",
            definition="from the containment to the restore",
            start_at=moments.contained_at,
            end_at=moments.restored_at,
        ),
    )


_MINUTE_S = 60
_HOUR_S = 3_600
_DAY_S = 86_400


def span_words(span: timedelta | None) -> str:
    """Answer a span to the minute from one minute on: "13 d 8 h 25 min", "38 min", "41 s"."""
    if span is None:
        return "unknown"
    seconds = int(span.total_seconds())
    if seconds < 0:
        return f"{span_words(-span)} the other way round"
    if seconds < _MINUTE_S:
        return f"{seconds} s"
    parts = (
        (seconds // _DAY_S, "d"),
        (seconds % _DAY_S // _HOUR_S, "h"),
        (seconds % _HOUR_S // _MINUTE_S, "min"),
    )
    return " ".join(f"{count} {unit}" for count, unit in parts if count)
