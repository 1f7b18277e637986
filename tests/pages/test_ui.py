from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from common.templatetags import ui
from common.verdicts import Verdict

NOW = datetime(2026, 9, 9, 13, 22, 0, tzinfo=UTC)


def test_every_verdict_has_a_glyph_of_its_own() -> None:
    glyphs = [ui.verdict_glyph(verdict) for verdict in Verdict]
    assert len(set(glyphs)) == len(Verdict)
    assert ui.verdict_glyph("unheard of") == ui.verdict_glyph(Verdict.INCONCLUSIVE)


def test_a_verdict_is_a_word() -> None:
    assert ui.verdict_word(Verdict.NOT_EXERCISED) == "not exercised"
    assert ui.verdict_word("") == "no verdict yet"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (41, "41 s"),
        (60, "1 min"),
        (728, "12 min 8 s"),
        (4 * 3600 + 57 * 60, "4 h 57 min"),
        (47 * 3600, "47 h"),
        (48 * 3600, "2 d"),
        (3 * 86400 + 4 * 3600 + 59, "3 d 4 h"),
        (-5, "0 s"),
    ],
)
def test_durations_read_in_their_two_largest_units(seconds: int, words: str) -> None:
    assert ui.duration(timedelta(seconds=seconds)) == words
    assert ui.duration(seconds) == words


def test_an_unknown_duration_reads_unknown() -> None:
    assert ui.duration(None) == "unknown"


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=12), "12 s"),
        (timedelta(minutes=41, seconds=30), "41 min"),
        (timedelta(hours=4, minutes=57), "4 h 57 min"),
        (timedelta(hours=19, minutes=59), "19 h"),
        (timedelta(days=13, hours=8), "13 d 8 h"),
    ],
)
def test_an_age_is_coarser_the_older_it_is(ago: timedelta, words: str) -> None:
    with time_machine.travel(NOW, tick=False):
        assert ui.age(NOW - ago) == words


def test_what_is_left_counts_down_and_ends() -> None:
    with time_machine.travel(NOW, tick=False):
        assert ui.left(NOW + timedelta(hours=18, minutes=12)) == "18 h 12 min left"
        assert ui.left(NOW) == "over"
        assert ui.left(None) == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [(1_048_576, "1,048,576"), (0, "0"), (None, "unknown"), ("", "unknown"), (True, "unknown")],
)
def test_a_figure_that_is_missing_is_never_zero(value: object, words: str) -> None:
    assert ui.tokens(value) == words


def test_a_ratio_is_not_rounded_up_to_what_it_does_not_reach() -> None:
    assert ui.times(0.99999).startswith("0.99")
    assert ui.times(681_280 / 1_048_576).startswith("0.64")
    assert ui.times(None) == "unknown"


def test_a_band_reads_from_end_to_end() -> None:
    assert ui.band([10_618, 16_377]) == "10,618 to 16,377"
    assert ui.band(None) == "empty"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "none"),
        (False, "no"),
        (10_624, "10,624"),
        ([1, 2_000], "1 to 2,000"),
        ("0.5.19", "0.5.19"),
        (0.648438, "0.6484"),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_any_figure_of_a_check_can_be_read(value: object, words: str) -> None:
    assert ui.figure(value) == words


def test_a_moment_says_utc_whatever_zone_it_came_in() -> None:
    eastern = NOW.astimezone(tz=None).astimezone(
        datetime.strptime("-0400", "%z").tzinfo  # the zone of the status page in the facts
    )
    assert "2026-09-09 13:22:00" in ui.stamp(eastern)
    assert 'datetime="2026-09-09T13:22:00+00:00"' in ui.stamp(eastern)
    assert "unknown" in ui.stamp(None)


def test_names_break_after_separators_only_and_stay_escaped() -> None:
    assert ui.breakable("pool_covers.x") == "pool_<wbr>covers.<wbr>x"
    assert "<script>" not in ui.breakable("a_<script>")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/", "overview"),
        ("/fleet/add/", "deployments"),
        ("/runs/3/", "runs"),
        ("/audits/", "audits"),
    ],
)
def test_an_address_knows_its_place_in_the_navigation(path: str, place: str) -> None:
    assert ui.place(path) == place
