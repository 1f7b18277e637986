"""Which nodes end a refused prompt at the door."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.gates.safe_rejection import SafeRejection
from probes.judgement import Check, Skipped
from tests.probes.builders import decode, prefill, unified


def judged(*readings: Reading) -> list[Check | Skipped]:
    return list(SafeRejection().judge(FleetReading(readings=readings)))


def verdict_of(reading: Reading) -> Verdict:
    (check,) = judged(reading)
    assert isinstance(check, Check)
    assert check.target == reading.node
    return check.verdict


@pytest.mark.parametrize("version", ["0.4.0", "0.5.5", "0.5.19", "0.5.20", "0.5.20.post1"])
def test_up_to_0_5_20_it_fails_on_either_side(version: str) -> None:
    assert verdict_of(prefill(version=version)) is Verdict.FAIL
    assert verdict_of(decode(version=version)) is Verdict.FAIL


@pytest.mark.parametrize("version", ["0.5.21", "0.5.22", "0.5.23"])
def test_from_0_5_21_it_passes(version: str) -> None:
    assert verdict_of(prefill(version=version)) is Verdict.PASS
    assert verdict_of(decode(version=version)) is Verdict.PASS


def test_a_newer_final_release_passes_with_a_note() -> None:
    (check,) = judged(prefill(version="0.5.31"))
    assert isinstance(check, Check)
    assert check.verdict is Verdict.PASS
    assert "0.5.31 is newer than the last release read (0.5.23)" in check.reason


@pytest.mark.parametrize("version", [None, "nightly", "0.5.24rc1", "0.5.24.dev1", "0.5.23+local"])
def test_what_a_version_does_not_tell_is_inconclusive(version: str | None) -> None:
    assert verdict_of(prefill(version=version)) is Verdict.INCONCLUSIVE


def test_another_engine_is_inconclusive() -> None:
    assert verdict_of(prefill(engine="vllm")) is Verdict.INCONCLUSIVE


def test_the_wrong_or_an_unshown_role_never_passes() -> None:
    assert verdict_of(prefill(reported_role=Role.UNIFIED)) is Verdict.INCONCLUSIVE
    assert verdict_of(prefill(reported_role=None)) is Verdict.INCONCLUSIVE
    assert verdict_of(unified(reported_role=Role.PREFILL)) is Verdict.INCONCLUSIVE


def test_a_silent_node_is_inconclusive() -> None:
    assert verdict_of(replace(decode(), problem="timed out")) is Verdict.INCONCLUSIVE


def test_unified_nodes_are_skipped_by_name() -> None:
    found = judged(prefill(), unified("lonely", version="0.5.19"))
    skipped = [one for one in found if isinstance(one, Skipped)]
    assert [check.target for check in found if isinstance(check, Check)] == ["prefill-1"]
    assert "lonely" in skipped[0].reason
