"""The timeline as a figure: every entry in its lane, UTC on the axis, no markup from texts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import plotly.graph_objects

from incidents.charts import timeline_figure
from incidents.contract import Source
from incidents.postmortem import Entry, Moments

AT = datetime(2026, 9, 9, 13, 22, tzinfo=UTC)
ENTRY = Entry(
    sequence=1,
    occurred_at=AT,
    recorded_at=AT,
    source="person",
    actor="rita",
    kind="note",
    text="seen",
    supersedes=None,
    superseded_by=None,
    is_erased=False,
    body_digest="",
    previous="",
    digest="",
)


def figure_of(*entries: Entry, moments: Moments | None = None) -> dict[str, Any]:
    return timeline_figure(entries, moments or Moments())


def points(figure: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        point
        for trace in figure["data"]
        for point in zip(trace["x"], trace["y"], trace["text"], strict=True)
    ]


def test_plotly_takes_the_figure() -> None:
    figure = figure_of(ENTRY, moments=Moments(declared_at=AT))
    drawn = plotly.graph_objects.Figure(figure)
    assert len(drawn.data) == len(Source)
    assert drawn.layout.xaxis.title.text == "Occurred at (UTC)"
    assert drawn.layout.yaxis.title.text == "Source"


def test_every_entry_stands_in_its_source_s_lane_at_its_moment() -> None:
    entries = [replace(ENTRY, source=source.value) for source in Source]
    assert sorted(lane for _, lane, _ in points(figure_of(*entries))) == sorted(Source)
    ((x, _, text),) = points(figure_of(ENTRY))
    assert (x, text) == ("2026-09-09 13:22:00.000000", "1: seen")


def test_moments_are_drawn_in_utc() -> None:
    edt = AT.astimezone(timezone(timedelta(hours=-4)))
    figure = figure_of(replace(ENTRY, occurred_at=edt), moments=Moments(declared_at=edt))
    assert points(figure)[0][0] == "2026-09-09 13:22:00.000000"
    assert figure["layout"]["shapes"][0]["x0"] == "2026-09-09 13:22:00.000000"
    assert [one["text"] for one in figure["layout"]["annotations"]] == ["declared"]


def test_superseded_and_erased_entries_are_not_drawn() -> None:
    gone = (replace(ENTRY, superseded_by=2), replace(ENTRY, is_erased=True, text=""))
    assert points(figure_of(*gone)) == []


def test_texts_bring_no_markup_and_no_length() -> None:
    text = '<a href="javascript:x">&' + "y" * 500
    ((_, _, shown),) = points(figure_of(replace(ENTRY, text=text)))
    assert "<" not in shown
    assert "&lt;a href" in shown
    assert shown.endswith("…")
