"""Which guards stand in which release, and what a version number cannot tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from probes.versions import GUARDS, LAST_KNOWN, SAFE_SINCE, place_version

# Release, retires after the forward pass, refuses at the door: engines/sglang-and-routers.md 6.1.
MATRIX = [
    ("0.5.5", False, False),
    ("0.5.19", False, False),
    ("0.5.20", True, False),
    ("0.5.21", True, True),
    ("0.5.22", True, True),
    ("0.5.23", True, True),
]


@pytest.mark.parametrize(("version", "retires", "refuses"), MATRIX)
def test_the_matrix_of_released_wheels(version: str, *, retires: bool, refuses: bool) -> None:
    placed = place_version("sglang", version)
    assert placed.guards is not None
    assert placed.guards.retires_after_forward is retires
    assert placed.guards.refuses_at_the_door is refuses
    assert placed.note == ""


@pytest.mark.parametrize("version", ["0.5.24", "0.6.0", "0.10.0", "1.0", "0.5.23.post1"])
def test_final_releases_above_the_last_known_inherit_its_row_with_a_note(version: str) -> None:
    placed = place_version("sglang", version)
    assert placed.guards == GUARDS["sglang"][-1]
    assert version in placed.note
    assert LAST_KNOWN["sglang"] in placed.note


@pytest.mark.parametrize(
    "version",
    [
        None,
        "",
        "dev",
        "unknown",
        "0.5.23rc1",
        "0.5.23a1",
        "0.5.24.dev12",
        "0.0.0.dev0",
        "0.5.23+cu128",
        "0.5.23+empty",
        "0.1.25-cu124+0.g184a3ac.dirty",
        "1!0.5.23",
        "0.5.23 or so",
        "0.5..23",
    ],
)
def test_what_a_number_cannot_tell_is_unknown(version: str | None) -> None:
    placed = place_version("sglang", version)
    assert placed.guards is None
    assert placed.problem


def test_numbers_are_compared_as_numbers() -> None:
    placed = place_version("sglang", "0.5.9")
    assert placed.guards is not None
    assert not placed.guards.close_exposure


def test_a_leading_v_is_read() -> None:
    assert place_version("sglang", "v0.5.21") == place_version("sglang", "0.5.21")


def test_an_engine_without_a_table_is_unknown() -> None:
    assert place_version("vllm", "0.32.0").guards is None


@given(st.text())
def test_no_text_raises(version: str) -> None:
    place_version("sglang", version)


def test_rows_are_in_order_and_the_safe_release_is_a_row() -> None:
    for engine, rows in GUARDS.items():
        assert [Version(row.since) for row in rows] == sorted(Version(row.since) for row in rows)
        assert SAFE_SINCE[engine] == next(row.since for row in rows if row.refuses_at_the_door)
