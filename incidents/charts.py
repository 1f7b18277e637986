"""Draws a timeline: entries and moments of an incident as a plotly figure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from incidents.contract import Source
from incidents.postmortem import Entry, Moments

#: Lanes from the bottom up: people on top, since their acts are what is looked for.
LANES = (Source.SYSTEM, Source.RUN, Source.CANARY, Source.AUDIT, Source.PERSON)
#: Each lane has a shape of its own, so that none is told by colour alone.
_SYMBOLS = {
    Source.SYSTEM: "square",
    Source.RUN: "triangle-right",
    Source.CANARY: "diamond",
    Source.AUDIT: "circle",
    Source.PERSON: "star",
}
_MAX_HOVER_CHARACTERS = 120
NO_MOMENTS = Moments()


def timeline_figure(entries: Sequence[Entry], moments: Moments = NO_MOMENTS) -> dict[str, object]:
    """Answer the figure: a lane a source, a point an entry, a line a moment.

    **Shape**: x the moment of occurrence in UTC, y the source; superseded and erased entries are
    not drawn. **Source**: plotly.js 3 figure reference (scatter, layout.shapes).
    """
    drawn = [one for one in entries if one.superseded_by is None and not one.is_erased]
    marks = _marks(moments)
    return {
        "data": [_trace(lane, [one for one in drawn if one.source == lane]) for lane in LANES],
        "layout": {
            "xaxis": {"title": {"text": "Occurred at (UTC)"}, "type": "date"},
            "yaxis": {
                "title": {"text": "Source"},
                "type": "category",
                "categoryorder": "array",
                "categoryarray": [lane.value for lane in LANES],
            },
            "shapes": [_line(at) for _, at in marks],
            "annotations": [_label(name, at) for name, at in marks],
            "showlegend": False,
            "hovermode": "closest",
        },
    }


def _trace(lane: Source, entries: Sequence[Entry]) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": lane.value,
        "x": [_utc(one.occurred_at) for one in entries],
        "y": [lane.value for _ in entries],
        "text": [_hover(one) for one in entries],
        "hovertemplate": "%{x} UTC<br>%{text}<extra></extra>",
        "marker": {"symbol": _SYMBOLS[lane], "size": 10},
    }


def _hover(entry: Entry) -> str:
    """Answer the words of a point; plotly reads markup in them, so none may come through."""
    words = " ".join(entry.text.split())
    if len(words) > _MAX_HOVER_CHARACTERS:
        words = words[: _MAX_HOVER_CHARACTERS - 1] + "…"
    words = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"{entry.sequence}: {words}"


def _marks(moments: Moments) -> list[tuple[str, datetime]]:
    # The start of impact can lie weeks before: drawn, it would press all else into one column.
    named = (
        ("detected", moments.detected_at),
        ("declared", moments.declared_at),
        ("contained", moments.contained_at),
        ("mitigated", moments.mitigated_at),
        ("restored", moments.restored_at),
        ("closed", moments.closed_at),
    )
    return [(name, at) for name, at in named if at is not None]


def _line(at: datetime) -> dict[str, object]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": _utc(at),
        "x1": _utc(at),
        "y0": 0,
        "y1": 1,
        "line": {"width": 1, "dash": "dot"},
    }


def _label(name: str, at: datetime) -> dict[str, object]:
    return {
        "xref": "x",
        "yref": "paper",
        "x": _utc(at),
        "y": 1,
        "text": name,
        "textangle": -90,
        "yanchor": "top",
        "xanchor": "right",
        "showarrow": False,
    }


def _utc(at: datetime) -> str:
    """Answer a moment as plotly reads it; it knows no zones, so UTC is said on the axis."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
