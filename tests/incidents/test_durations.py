"""Spans between moments, on the figures of September (incident facts)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from incidents.contract import Status
from incidents.impact import StatusChange, exposure_windows
from incidents.postmortem import Duration, Moments, Window, durations_of, span_words

SEPTEMBER = Moments(
    impact_start_at=datetime(2026, 8, 27, tzinfo=UTC),
    detected_at=datetime(2026, 9, 9, 8, 25, tzinfo=UTC),
    declared_at=datetime(2026, 9, 9, 13, 22, tzinfo=UTC),
    contained_at=datetime(2026, 9, 9, 14, 0, tzinfo=UTC),
    mitigated_at=datetime(2026, 9, 9, 19, 4, tzinfo=UTC),
    restored_at=datetime(2026, 9, 9, 19, 40, tzinfo=UTC),
)


def test_september_took_so_long() -> None:
    assert {one.name: one.words for one in durations_of(SEPTEMBER)} == {
        "detect": "13 d 8 h 25 min",
        "declare": "4 h 57 min",
        "contain": "38 min",
        "restore": "5 h 40 min",
    }


def test_a_span_without_an_end_is_unknown() -> None:
    for one in durations_of(Moments(detected_at=SEPTEMBER.detected_at)):
        assert one.span is None
        assert one.words == "unknown"


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(seconds=60), "1 min"),
        (timedelta(hours=24), "1 d"),
        (timedelta(days=1, minutes=1), "1 d 1 min"),
        (timedelta(minutes=-5), "5 min the other way round"),
        (None, "unknown"),
    ],
)
def test_a_span_reads_in_words(span: timedelta | None, words: str) -> None:
    assert span_words(span) == words


def test_every_span_says_what_it_runs_between() -> None:
    for one in durations_of(SEPTEMBER):
        assert isinstance(one, Duration)
        assert one.definition.startswith("from ")


def change(at: datetime | None, before: Status, after: Status) -> StatusChange:
    assert at is not None
    return StatusChange(at=at, before=before, after=after)


def test_september_has_one_window() -> None:
    way = (
        change(SEPTEMBER.declared_at, Status.TRIAGE, Status.DECLARED),
        change(SEPTEMBER.contained_at, Status.DECLARED, Status.CONTAINED),
        change(SEPTEMBER.mitigated_at, Status.CONTAINED, Status.MITIGATED),
        change(SEPTEMBER.restored_at, Status.MITIGATED, Status.RESTORED),
    )
    assert exposure_windows(SEPTEMBER.impact_start_at, way) == (
        Window(start_at=SEPTEMBER.impact_start_at, end_at=SEPTEMBER.contained_at),
    )


def test_a_restore_straight_back_to_contained_served_in_between() -> None:
    assert SEPTEMBER.restored_at is not None
    back_at = SEPTEMBER.restored_at + timedelta(minutes=3)
    way = (
        change(SEPTEMBER.contained_at, Status.DECLARED, Status.CONTAINED),
        change(SEPTEMBER.restored_at, Status.MITIGATED, Status.RESTORED),
        change(back_at, Status.RESTORED, Status.CONTAINED),
    )
    windows = exposure_windows(SEPTEMBER.impact_start_at, way)
    assert windows[1:] == (Window(start_at=SEPTEMBER.restored_at, end_at=back_at),)


def test_a_containment_that_broke_opens_a_window_until_the_next() -> None:
    assert SEPTEMBER.contained_at is not None
    hours = [SEPTEMBER.contained_at + timedelta(hours=count) for count in (1, 2)]
    way = (
        change(SEPTEMBER.contained_at, Status.DECLARED, Status.CONTAINED),
        change(hours[0], Status.CONTAINED, Status.DECLARED),
        change(hours[1], Status.DECLARED, Status.CONTAINED),
    )
    windows = exposure_windows(SEPTEMBER.impact_start_at, way)
    assert windows[1:] == (Window(start_at=hours[0], end_at=hours[1]),)


def test_until_containment_the_window_is_open() -> None:
    (window,) = exposure_windows(SEPTEMBER.impact_start_at, ())
    assert window.end_at is None
