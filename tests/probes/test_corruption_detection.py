"""When the checksum of a transfer really verifies it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.gates.corruption_detection import CANARY, CHECKSUM, CorruptionDetection
from probes.judgement import Check, Kind, Skipped
from tests.probes.builders import decode, prefill, unified

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
ON, OFF = {CHECKSUM: "true"}, {CHECKSUM: "false"}


def judged(one: Reading, other: Reading) -> Check:
    (check,) = CorruptionDetection().judge(FleetReading(readings=(one, other)))
    assert isinstance(check, Check)
    assert check.kind is Kind.CONFIG
    return check


@pytest.mark.parametrize(
    ("mine", "theirs", "version", "verdict"),
    [
        (ON, ON, "0.5.21", PASS),
        (ON, ON, "0.5.23", PASS),
        (OFF, OFF, "0.5.23", FAIL),
        (ON, OFF, "0.5.23", FAIL),
        (OFF, ON, "0.5.23", FAIL),
        ({}, {}, "0.5.20", FAIL),
        ({}, {}, "0.5.5", FAIL),
        ({}, {}, "0.5.21", OPEN),
        (ON, {}, "0.5.22", OPEN),
        ({}, {}, None, OPEN),
        ({}, {}, "0.5.20+local", OPEN),
    ],
)
def test_checksum_on_both_sides(
    mine: dict[str, str], theirs: dict[str, str], version: str | None, verdict: Verdict
) -> None:
    check = judged(prefill(flags=mine, version=version), decode(flags=theirs, version=version))
    assert check.verdict is verdict, check.reason


def test_one_sided_is_told_apart_from_off() -> None:
    assert "metadata buffers" in judged(prefill(flags=ON), decode(flags=OFF)).reason
    assert "0.5.21 or later" in judged(prefill(version="0.5.20"), decode(version="0.5.20")).reason


@pytest.mark.parametrize(
    "over",
    [
        {"version": "0.5.22"},
        {"layout": {**decode().layout, "page_size": "1"}},
        {"layout": {**decode().layout, "kv_cache_dtype": "bfloat16"}},
        {"parallel": {"tp_size": "4", "dp_size": "1"}},
    ],
)
def test_unlike_layouts_are_skipped_in_silence_and_fail(over: dict[str, Any]) -> None:
    check = judged(prefill(flags=ON), decode(flags=ON, **over))
    assert check.verdict is FAIL
    assert "skipped in silence" in check.reason


def test_the_mode_of_kv_canary_is_told() -> None:
    blind = judged(prefill(flags=ON), decode(flags={**ON, CANARY: "log"}))
    assert "inside prefill-1 go unnoticed" in blind.reason
    watching = {**ON, CANARY: "raise"}
    assert "watches the pages" in judged(prefill(flags=watching), decode(flags=watching)).reason
    assert blind.figures["kv_canary"] == "not shown / log"


@pytest.mark.parametrize(
    "over",
    [
        {"problem": "x"},
        {"reported_role": Role.UNIFIED},
        {"reported_role": None},
        {"engine": "vllm"},
        {"layout": {}},
        {"parallel": {}},
    ],
)
def test_what_is_not_known_is_inconclusive(over: dict[str, Any]) -> None:
    assert judged(prefill(flags=ON), replace(decode(flags=ON), **over)).verdict is OPEN


def test_unified_nodes_are_skipped() -> None:
    (found,) = CorruptionDetection().judge(FleetReading(readings=(unified(),)))
    assert isinstance(found, Skipped)


SWITCHES = st.sampled_from([None, "true", "false", "null"])


@given(SWITCHES, SWITCHES)
def test_it_never_passes_unless_both_say_that_it_is_on(
    mine: str | None, theirs: str | None
) -> None:
    check = judged(prefill(flags={CHECKSUM: mine}), decode(flags={CHECKSUM: theirs}))
    assert (check.verdict is PASS) == (mine == theirs == "true")
