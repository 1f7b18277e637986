"""Which lengths a node admits and can never schedule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Reading, Role
from probes.gates.decode_admission import DecodeAdmission
from probes.judgement import Check, Kind, Skipped
from tests.probes.builders import decode, prefill, unified

FIGURES = st.integers(min_value=100, max_value=100_000)


def judged(reading: Reading) -> Check:
    (check,) = DecodeAdmission().judge(FleetReading(readings=(reading,)))
    assert isinstance(check, Check)
    assert (check.kind, check.target) == (Kind.AVAILABILITY, reading.node)
    return check


def test_the_real_0_5_19_that_hung_at_1010() -> None:
    check = judged(decode(pool=1_024, context=4_096, reserve=16, version="0.5.19"))
    # Prompt and reserve must fit the pool: 1,008 + 16 = 1,024; F is 1,018.
    assert (check.verdict, check.figures["hang_band"]) == (Verdict.FAIL, [1_009, 1_017])
    assert check.figures["reserve"] == 16


def test_a_pool_with_room_for_the_reserve_passes() -> None:
    check = judged(decode(pool=5_632, context=4_096, reserve=512))
    assert (check.verdict, check.figures["hang_band"]) == (Verdict.PASS, None)
    assert "when its pool is empty" in check.reason


def test_a_reserve_that_is_not_shown_is_taken_as_512() -> None:
    check = judged(decode(pool=4_400, context=4_096))
    # 4,400 - 512 = 3,888 is the longest that fits; the context admits to 4,089.
    assert (check.verdict, check.figures["hang_band"]) == (Verdict.FAIL, [3_889, 4_089])
    assert check.figures["reserve_assumed"] is True


def test_a_reserve_may_be_attested_and_is_named() -> None:
    word = Attestation(key="num_reserved_decode_tokens", value="16", by="ann")
    check = judged(decode(pool=4_400, context=4_096, attested={word.key: word}))
    assert (check.verdict, check.figures["reserve"]) == (Verdict.PASS, 16)
    assert "the word of ann" in check.reason
    assert "ann" in str(check.figures["attested"])


def test_no_reserve_at_all_still_keeps_one_new_token() -> None:
    check = judged(decode(pool=4_000, context=4_096, reserve=0))
    assert (check.verdict, check.figures["longest_scheduled"]) == (Verdict.PASS, 3_999)
    assert "reserve of 0" in check.reason


@pytest.mark.parametrize("build", [prefill, unified])
def test_the_computing_side_needs_a_page_beside_the_prompt(build: Any) -> None:  # noqa: ANN401
    check = judged(build(pool=1_024, context=4_096, page_size=64))
    # prompt + 1 new token + 64 must stay below 1,024.
    assert (check.verdict, check.figures["hang_band"]) == (Verdict.FAIL, [959, 1_017])
    assert judged(build(pool=1_024, context=4_096, page_size=1)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "over",
    [
        {"pool": None, "ranks": (), "first_refused": 16_378, "context": None},
        {"first_refused": None},
        {"problem": "timed out"},
        {"reported_role": None},
        {"reported_role": Role.UNIFIED},
    ],
)
def test_what_is_not_known_is_inconclusive(over: dict[str, Any]) -> None:
    assert judged(decode(**over)).verdict is Verdict.INCONCLUSIVE


def test_another_engine_is_skipped_by_name() -> None:
    (found,) = DecodeAdmission().judge(FleetReading(readings=(unified(engine="vllm"),)))
    assert isinstance(found, Skipped)
    assert "vllm" in found.reason


def test_a_larger_promise_elsewhere_does_not_make_the_pool_smaller() -> None:
    reading = decode(pool=20_480, context=16_384, reserve=512)
    fleet = FleetReading(readings=(reading,), advertised=1_048_576)
    (check,) = DecodeAdmission().judge(fleet)
    assert isinstance(check, Check)
    assert (check.verdict, check.figures["pool"]) == (Verdict.PASS, 20_480)


@given(FIGURES, FIGURES, st.integers(min_value=0, max_value=2_000))
def test_it_passes_exactly_where_all_that_is_admitted_fits(
    pool: int, context: int, reserve: int
) -> None:
    check = judged(decode(pool=pool, context=context, reserve=reserve))
    last = min(pool, context) - 7
    fits = max(0, pool - max(reserve, 1))
    assert check.verdict is (Verdict.PASS if fits >= last else Verdict.FAIL)
    assert check.figures["hang_band"] == (None if fits >= last else [fits + 1, last])


@given(FIGURES, FIGURES, st.integers(min_value=0, max_value=2_000), FIGURES)
def test_a_larger_pool_never_makes_a_pass_a_fail(
    pool: int, context: int, reserve: int, more: int
) -> None:
    # With the limit held by the context: a pool below it moves the limit along.
    if pool < context:
        return
    if judged(decode(pool=pool, context=context, reserve=reserve)).verdict is Verdict.PASS:
        grown = judged(decode(pool=pool + more, context=context, reserve=reserve))
        assert grown.verdict is Verdict.PASS
