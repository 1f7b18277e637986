"""What voids a proof between two readings of the same node."""

from __future__ import annotations

from dataclasses import replace

from common.verdicts import Verdict
from fleet.reading import FleetReading, Load, Rank, Reading
from probes.drift import compare_fleets
from probes.judgement import Check
from tests.probes.builders import TAKEN_AT, decode, prefill, unified


def drift_of(before: Reading, after: Reading) -> Check:
    found = compare_fleets(FleetReading(readings=(before,)), FleetReading(readings=(after,)))
    (check,) = [one for one in found if one.check == "drift"]
    assert check.check == "drift"
    assert not check.required
    return check


def test_the_same_node_later_has_not_drifted() -> None:
    later = replace(unified(), taken_at=TAKEN_AT.replace(hour=20), load=Load(running=7))
    assert drift_of(unified(), later).verdict is Verdict.PASS


def test_the_same_flags_with_another_pool_is_drift_and_both_figures_are_shown() -> None:
    after = unified(ranks=(Rank(index=0, token_capacity=19_000),), pool=19_000)
    check = drift_of(unified(), after)
    assert check.verdict is Verdict.FAIL
    assert check.figures["pool"] == "20480 -> 19000"
    assert "proofs are void" in check.reason


def test_a_change_inside_the_layout_is_named() -> None:
    after = unified(layout={**unified().layout, "kv_cache_dtype": "bfloat16"})
    check = drift_of(unified(), after)
    assert check.figures == {"layout.kv_cache_dtype": "fp8_e4m3 -> bfloat16"}


def test_a_restart_is_drift_by_start_moment_or_by_counters() -> None:
    assert drift_of(unified(), unified(started="2026-11-29T09:00:00Z")).verdict is Verdict.FAIL
    before = unified(counters={"requests": 10.0})
    assert drift_of(before, unified(counters={"requests": 9.0})).verdict is Verdict.FAIL
    assert drift_of(before, unified(counters={"requests": 11.0})).verdict is Verdict.PASS


def test_where_no_restart_could_show_nothing_is_proved() -> None:
    blind = unified(started=None)
    assert drift_of(blind, blind).verdict is Verdict.INCONCLUSIVE


def test_a_node_that_could_not_be_read_is_inconclusive() -> None:
    assert drift_of(unified(), unified(problem="timed out")).verdict is Verdict.INCONCLUSIVE


def test_nodes_that_come_and_go_are_drift() -> None:
    checks = compare_fleets(
        FleetReading(readings=(prefill(), decode("d1"))),
        FleetReading(readings=(prefill(), decode("d2"))),
    )
    verdicts = {check.target: check.verdict for check in checks}
    assert verdicts == {"prefill-1": Verdict.PASS, "d1": Verdict.FAIL, "d2": Verdict.FAIL}
