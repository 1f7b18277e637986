"""Unequal limits of a pair are an availability fault in every version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import FleetReading, Rank, Reading, Role
from probes.gates.pair_limits import PairLimits
from probes.judgement import Check, Kind, Skipped
from tests.probes.builders import decode, prefill, unified

POOLS = st.integers(min_value=600, max_value=40_000)


def judged(*readings: Reading) -> Check:
    (check,) = PairLimits().judge(FleetReading(readings=readings))
    assert isinstance(check, Check)
    assert check.kind is Kind.AVAILABILITY
    return check


@pytest.mark.parametrize("version", ["0.5.5", "0.5.19", "0.5.20", "0.5.21", "0.5.23", "0.5.31"])
def test_unequal_pools_below_the_context_fail_in_every_version(version: str) -> None:
    check = judged(
        prefill(pool=1_024, context=4_096, version=version),
        decode(pool=4_096, context=4_096, version=version),
    )
    assert check.verdict is Verdict.FAIL
    # F = pool - 6 where the pool is below the context: the real 0.5.23 showed these.
    assert check.figures["prefill_first_refused"] == 1_018
    assert check.figures["decode_first_refused"] == 4_090
    assert check.figures["lengths"] == [1_018, 4_089]
    assert "decode-1 is not told and holds" in check.reason


def test_the_other_side_counts_too() -> None:
    check = judged(prefill(pool=4_096, context=4_096), decode(pool=1_024, context=4_096))
    assert (check.verdict, check.figures["lengths"]) == (Verdict.FAIL, [1_018, 4_089])
    assert "prefill-1 is not told and holds" in check.reason


def test_equal_limits_pass_whatever_the_pools() -> None:
    check = judged(prefill(pool=20_480), decode(pool=2_048_000))
    assert (check.verdict, check.figures["lengths"]) == (Verdict.PASS, None)


def test_unlike_ranks_of_one_side_are_unequal_limits() -> None:
    ranks = (
        Rank(index=0, token_capacity=8_192, reported_pool=8_192),
        Rank(index=1, token_capacity=4_096, reported_pool=4_096),
    )
    check = judged(prefill(pool=8_192, ranks=ranks), decode(pool=8_192))
    assert (check.verdict, check.figures["lengths"]) == (Verdict.FAIL, [4_090, 8_185])


@pytest.mark.parametrize(
    "over",
    [
        {"first_refused": None},
        {"problem": "timed out"},
        {"reported_role": None},
        {"reported_role": Role.UNIFIED},
        {"engine": "vllm"},
        {"ranks": (Rank(index=0, token_capacity=20_480), Rank(index=1))},
    ],
)
def test_what_is_not_known_is_inconclusive(over: dict[str, Any]) -> None:
    assert judged(prefill(**over), decode()).verdict is Verdict.INCONCLUSIVE
    assert judged(prefill(), replace(decode(), **over)).verdict is Verdict.INCONCLUSIVE


def test_unified_nodes_are_skipped() -> None:
    (found,) = PairLimits().judge(FleetReading(readings=(unified(),)))
    assert isinstance(found, Skipped)


@given(POOLS, POOLS, st.integers(min_value=600, max_value=40_000))
def test_it_passes_exactly_where_both_refuse_alike(near: int, far: int, context: int) -> None:
    check = judged(prefill(pool=near, context=context), decode(pool=far, context=context))
    first, other = min(near, context) - 6, min(far, context) - 6
    assert check.verdict is (Verdict.PASS if first == other else Verdict.FAIL)
    expected = None if first == other else [min(first, other), max(first, other) - 1]
    assert check.figures["lengths"] == expected
