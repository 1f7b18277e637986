"""Exporter: the post-mortem as Markdown, which no text in it can bring out of shape."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from incidents.contract import EXPORTERS
from incidents.marking import Lines, figure, moment, or_dash, table, text
from incidents.postmortem import (
    CanaryLine,
    Entry,
    FigureLine,
    GateLine,
    GateSide,
    MarkerLine,
    Postmortem,
    Window,
    span_words,
)


@EXPORTERS.register("markdown")
class Markdown:
    """Writes a document for people: figures first, then what happened, everything in UTC."""

    title = "Markdown"
    media_type = "text/markdown"
    suffix = "md"

    def render(self, postmortem: Postmortem) -> str:
        """Answer the document, with a line feed at its end."""
        sections = (
            _head(postmortem),
            _impact(postmortem),
            _times(postmortem),
            _findings(postmortem),
            _gates(postmortem),
            _canary(postmortem),
            _actions(postmortem),
            _timeline(postmortem),
            _evidence(postmortem),
            _people(postmortem),
            _questions(postmortem),
            _chain(postmortem),
        )
        return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _head(postmortem: Postmortem) -> Lines:
    subject = postmortem.subject
    circle = "responders and commanders only" if subject.is_restricted else "not restricted"
    return [
        f"# {text(subject.reference)}: {text(subject.title)}",
        "",
        *table(
            ("What", "Value"),
            [
                ("Status", text(subject.status)),
                ("Kind", text(subject.kind.replace("_", " "))),
                ("Deployment", text(subject.deployment)),
                ("Model", text(subject.model)),
                ("Engine", text(subject.engine)),
                ("For", circle),
                ("Written", moment(postmortem.generated_at)),
            ],
        ),
    ]


def _impact(postmortem: Postmortem) -> Lines:
    impact = postmortem.impact
    rows = [(moment(one.start_at), _end_of(one), _length_of(one)) for one in impact.windows]
    return [
        "## Impact",
        "",
        "Requests may have been hit in these windows (UTC):",
        "",
        *table(("From", "To", "Length"), rows),
        "",
        f"Basis of the start: {text(impact.basis)}",
        "",
        f"Affected requests: {text(impact.affected)}.",
    ]


def _end_of(window: Window) -> str:
    return "still open" if window.end_at is None else moment(window.end_at)


def _length_of(window: Window) -> str:
    if window.start_at is None or window.end_at is None:
        return "unknown"
    return span_words(window.end_at - window.start_at)


def _times(postmortem: Postmortem) -> Lines:
    moments = postmortem.moments
    rows = [
        ("start of impact", moment(moments.impact_start_at)),
        ("detected", _reached(moments.detected_at)),
        ("declared", _reached(moments.declared_at)),
        ("contained", _reached(moments.contained_at)),
        ("mitigated", _reached(moments.mitigated_at)),
        ("restored", _reached(moments.restored_at)),
        ("closed", _reached(moments.closed_at)),
    ]
    spans = [
        (one.name, one.definition, one.words, _seconds(one.span and one.span.total_seconds()))
        for one in postmortem.durations
    ]
    return [
        "## Moments and durations",
        "",
        *table(("Moment", "UTC"), rows),
        "",
        *table(("Duration", "Definition", "Length", "Seconds"), spans),
    ]


def _reached(at: datetime | None) -> str:
    return "not reached" if at is None else moment(at)


def _seconds(seconds: object) -> str:
    return "unknown" if not isinstance(seconds, float) else f"{int(seconds):,}"


def _findings(postmortem: Postmortem) -> Lines:
    rows = [
        (
            text(one.check),
            text(one.target),
            text(one.kind.replace("_", " ")),
            moment(one.first_seen_at),
            "open" if one.resolved_at is None else moment(one.resolved_at),
            text(one.reason),
        )
        for one in postmortem.findings
    ]
    header = ("Check", "Target", "Kind", "First seen (UTC)", "Resolved (UTC)", "Why")
    return ["## Findings", "", *table(header, rows)]


def _gates(postmortem: Postmortem) -> Lines:
    before, after = _audit_words(postmortem.first_audit), _audit_words(postmortem.last_audit)
    rows = [row for gate in postmortem.gates for row in _gate_rows(gate)]
    header = ("Check", "Target", "Figure", f"Before ({before})", f"After ({after})")
    return [
        "## Checks before and after",
        "",
        "Pools, contexts and lengths in tokens.",
        "",
        *table(header, rows),
    ]


def _audit_words(audit: int | None) -> str:
    return "no audit" if audit is None else f"audit {audit}"


def _gate_rows(gate: GateLine) -> Iterator[tuple[str, ...]]:
    place = (text(gate.check), text(gate.target))
    yield (*place, "verdict", _verdict_of(gate.before), _verdict_of(gate.after))
    before, after = _figures_of(gate.before), _figures_of(gate.after)
    for name in dict.fromkeys([*before, *after]):
        yield (*place, text(name.replace("_", " ")), _shown(before, name), _shown(after, name))


def _verdict_of(side: GateSide | None) -> str:
    return or_dash("" if side is None else side.verdict.replace("_", " "))


def _figures_of(side: GateSide | None) -> dict[str, FigureLine]:
    return {} if side is None else {line.name: line for line in side.figures}


def _shown(figures: dict[str, FigureLine], name: str) -> str:
    return figure(figures[name].value) if name in figures else or_dash("")


def _canary(postmortem: Postmortem) -> Lines:
    header = (
        "Audit",
        "Round",
        "Row",
        "Role",
        "Tenant",
        "Length",
        "Asked tokens",
        "Status",
        "Prompt tokens",
        "Outcome",
        "Foreign markers",
    )
    return [
        "## Canary rows",
        "",
        "Lengths in tokens. Neither prompts nor answers are shown: answers stay sealed.",
        "",
        *table(header, map(_canary_row, postmortem.canary)),
    ]


def _canary_row(line: CanaryLine) -> tuple[str, ...]:
    return (
        str(line.audit),
        str(line.round),
        str(line.position),
        text(line.part),
        text(line.tenant),
        figure(line.length),
        figure(line.asked_tokens),
        or_dash("" if line.status is None else str(line.status)),
        figure(line.prompt_tokens),
        text(line.outcome.replace("_", " ")),
        or_dash("; ".join(map(_marker_words, line.markers))),
    )


def _marker_words(marker: MarkerLine) -> str:
    return f"{text(marker.tenant)}, request {text(marker.request)}, page {figure(marker.page)}"


def _actions(postmortem: Postmortem) -> Lines:
    rows = [(moment(one.occurred_at), text(one.actor), _said(one)) for one in postmortem.actions]
    return ["## What was done", "", *table(("UTC", "Run", "What"), rows)]


def _timeline(postmortem: Postmortem) -> Lines:
    rows = [
        (
            str(one.sequence),
            moment(one.occurred_at),
            moment(one.recorded_at),
            text(one.source),
            text(one.actor),
            text(one.kind.replace("_", " ")),
            _said(one),
        )
        for one in postmortem.entries
    ]
    header = ("Entry", "Occurred (UTC)", "Recorded (UTC)", "Source", "Who", "Kind", "What")
    return ["## Timeline", "", *table(header, rows)]


def _said(entry: Entry) -> str:
    """Answer the text of an entry with what became of it; a superseded one stays readable."""
    said = "(erased)" if entry.is_erased else text(entry.text)
    if entry.supersedes is not None:
        said = f"(in place of entry {entry.supersedes}) {said}"
    if entry.superseded_by is not None:
        said = f"(superseded by entry {entry.superseded_by}) {said}"
    return said


def _evidence(postmortem: Postmortem) -> Lines:
    rows = [
        (
            f"E-{one.number:04d}",
            text(one.title),
            moment(one.taken_at),
            figure(one.size_bytes),
            f"`{one.sha256}`",
        )
        for one in postmortem.evidence
    ]
    header = ("Number", "Title", "Kept (UTC)", "Bytes", "SHA-256")
    return ["## Evidence", "", *table(header, rows)]


def _people(postmortem: Postmortem) -> Lines:
    rows = [(text(one.name), text(one.part)) for one in postmortem.people]
    return ["## People", "", *table(("Who", "Part"), rows)]


def _questions(postmortem: Postmortem) -> Lines:
    return ["## Open questions", "", *(f"- {text(one)}" for one in postmortem.open_questions)]


def _chain(postmortem: Postmortem) -> Lines:
    chain = postmortem.chain
    state = (
        "Every entry is there and as it was written."
        if chain.holds
        else f"It breaks at entry {chain.break_sequence}: {text(chain.break_reason)}."
    )
    return [
        "## Hash chain",
        "",
        f"{chain.entries:,} entries; hash of the last: `{chain.head}`. {state}",
    ]
