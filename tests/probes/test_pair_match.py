"""Both sides of a pair must mean the same by a page; how they are split is advisory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.gates.pair_layout import PairLayout
from probes.gates.pair_match import PairMatch
from probes.judgement import Check, Skipped
from tests.probes.builders import decode, prefill, unified


def match_of(*readings: Reading) -> Check:
    (check,) = PairMatch().judge(FleetReading(readings=readings))
    assert isinstance(check, Check)
    return check


def test_twins_match() -> None:
    check = match_of(prefill(), decode())
    assert check.verdict is Verdict.PASS
    assert "page_size" in check.reason


@pytest.mark.parametrize("name", sorted(prefill().layout))
def test_every_term_of_the_layout_must_be_equal(name: str) -> None:
    other = decode(layout={**prefill().layout, name: "other"})
    check = match_of(prefill(), other)
    assert check.verdict is Verdict.FAIL
    assert check.figures == {name: f"{prefill().layout[name]} / other"}
    assert name in check.reason


def test_the_context_must_be_equal() -> None:
    assert match_of(prefill(), decode(context=8_192)).figures == {"context": "16384 / 8192"}


@pytest.mark.parametrize("name", sorted(prefill().layout))
def test_a_term_that_one_or_both_sides_do_not_show_never_passes(name: str) -> None:
    less = {**prefill().layout, name: None}
    check = match_of(prefill(), decode(layout=less))
    assert check.verdict is Verdict.INCONCLUSIVE
    assert f"decode-1 does not show {name}" in check.reason
    both = match_of(prefill(layout=less), decode(layout=less))
    assert both.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("name", ["quantization", "kv_cache_dtype", "page_size", "weights"])
def test_an_adapter_that_leaves_a_term_out_on_both_sides_never_passes(name: str) -> None:
    less = {key: value for key, value in prefill().layout.items() if key != name}
    check = match_of(prefill(layout=less), decode(layout=less))
    assert check.verdict is Verdict.INCONCLUSIVE
    assert name in check.reason


def test_an_unknown_context_never_passes() -> None:
    check = match_of(
        prefill(context=None, first_refused=20_474), decode(context=None, first_refused=20_474)
    )
    assert check.verdict is Verdict.INCONCLUSIVE


def test_a_difference_outranks_what_is_not_shown() -> None:
    check = match_of(prefill(layout={}), decode(context=8_192))
    assert check.verdict is Verdict.FAIL


def test_the_wrong_an_unshown_role_and_a_silent_node_never_pass() -> None:
    for side in (
        decode(reported_role=Role.UNIFIED),
        decode(reported_role=None),
        replace(decode(), problem="timed out"),
    ):
        assert match_of(prefill(), side).verdict is Verdict.INCONCLUSIVE


def test_without_a_pair_it_is_skipped() -> None:
    for readings in ((unified(),), (prefill(),), (decode(),), ()):
        (skipped,) = PairMatch().judge(FleetReading(readings=readings))
        assert isinstance(skipped, Skipped)
        assert "no pair" in skipped.reason


def test_unequal_parallel_sizes_are_told() -> None:
    other = decode(parallel={"tp_size": "4", "dp_size": "1"})
    (check,) = PairLayout().judge(FleetReading(readings=(prefill(), other)))
    assert isinstance(check, Check)
    assert check.verdict is Verdict.FAIL
    assert check.figures == {"tp_size": "8 / 4"}
    assert "canary" in check.reason


@pytest.mark.parametrize(
    ("mine", "theirs", "verdict"),
    [
        ({"tp_size": "8", "dcp_size": None}, {"tp_size": "8", "dcp_size": None}, Verdict.PASS),
        ({"tp_size": "8", "pp_size": "1"}, {"tp_size": "8", "pp_size": None}, Verdict.INCONCLUSIVE),
        (
            {"tp_size": None, "pp_size": "1"},
            {"tp_size": None, "pp_size": "1"},
            Verdict.INCONCLUSIVE,
        ),
        ({}, {}, Verdict.INCONCLUSIVE),
    ],
)
def test_a_size_that_neither_side_knows_is_no_gap_but_the_tensor_size_is(
    mine: dict[str, str | None], theirs: dict[str, str | None], verdict: Verdict
) -> None:
    pair = (prefill(parallel=mine), decode(parallel=theirs))
    (check,) = PairLayout().judge(FleetReading(readings=pair))
    assert isinstance(check, Check)
    assert check.verdict is verdict
