"""The pool gate, sentence by sentence of the design."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Rank, Reading, Role
from probes.gates.pool_covers_context import PoolCoversContext, required_pool
from probes.judgement import Check, Skipped
from tests.probes.builders import decode, limit_of, prefill, unified


def pool_checks(*readings: Reading, headroom: str = "1.25", **over: Any) -> list[Check]:  # noqa: ANN401
    fleet = FleetReading(readings=readings, headroom=Decimal(headroom), **over)
    found = list(PoolCoversContext().judge(fleet))
    assert all(isinstance(one, Check) for one in found)
    return [one for one in found if isinstance(one, Check)]


def only_check(reading: Reading, headroom: str = "1.25", **over: int) -> Check:
    (check,) = pool_checks(reading, headroom=headroom, **over)
    return check


def test_september_prefill_fails_with_its_danger_band() -> None:
    check = only_check(prefill(pool=681_280, context=1_048_576))
    assert check.verdict is Verdict.FAIL
    assert check.figures == {
        "pool": 681_280,
        "context": 1_048_576,
        "required": 1_310_720,
        "ratio": 681_280 / 1_048_576,
        "last_admitted": 681_273,
        "danger_band": [681_274, 1_048_575],
    }
    # 681,280 / 1.25, the context that would fit (issue 3, "Remedy").
    assert "545,024" in check.reason
    assert "681,274" in check.reason


def test_real_pools_of_1024_and_4096() -> None:
    small, large = pool_checks(
        prefill(pool=1_024, context=4_096), decode(pool=4_096, context=4_096), headroom="1.25"
    )
    assert small.figures["danger_band"] == [1_018, 4_095]
    assert large.figures["danger_band"] is None
    assert [small.verdict, large.verdict] == [Verdict.FAIL, Verdict.FAIL]


def test_the_headroom_alone_fails_without_a_danger_band() -> None:
    check = only_check(unified(pool=20_272, context=20_272), headroom="1.05")
    assert check.verdict is Verdict.FAIL
    assert check.figures["ratio"] == 1.0
    assert check.figures["required"] == 21_286
    assert check.figures["danger_band"] is None


def test_required_is_rounded_up_in_decimal_arithmetic() -> None:
    # In binary floating point 100 x 1.1 is 110.00000000000001, whose ceiling is 111.
    assert required_pool(100, Decimal("1.1")) == 110
    assert required_pool(1_048_576, Decimal("1.05")) == 1_101_005


def test_the_pool_is_the_engines_own_arithmetic_where_it_refuses_below_the_context() -> None:
    hybrid = prefill(
        context=1_048_576,
        first_refused=18_426,
        ranks=(Rank(index=0, token_capacity=186_368, swa_capacity=18_432),),
    )
    check = only_check(hybrid)
    assert check.figures["pool"] == 18_432
    assert check.figures["full_pool"] == 186_368
    assert check.figures["sliding_window_pool"] == 18_432


def test_the_sliding_window_pool_does_not_count_where_the_engine_does_not_count_it() -> None:
    hybrid = prefill(
        context=131_072,
        first_refused=99_994,
        ranks=(Rank(index=0, token_capacity=100_000, swa_capacity=20_000),),
    )
    assert only_check(hybrid).figures["pool"] == 100_000


def test_without_a_limit_the_smallest_kind_of_pool_counts() -> None:
    hybrid = unified(
        context=16_384,
        first_refused=None,
        ranks=(Rank(index=0, token_capacity=100_000, swa_capacity=20_000),),
    )
    check = only_check(hybrid)
    assert check.figures["pool"] == 20_000
    assert check.figures["last_admitted"] is None


def test_the_smallest_rank_counts() -> None:
    ranks = tuple(
        Rank(index=index, token_capacity=pool)
        for index, pool in enumerate([60_000, 60_000, 20_000, 60_000])
    )
    node = unified(context=32_768, first_refused=32_762, ranks=ranks)
    check = only_check(node, headroom="1.05")
    assert check.verdict is Verdict.FAIL
    assert check.figures["pool"] == 20_000
    assert check.figures["required"] == 34_407
    assert check.figures["danger_band"] == [limit_of(20_000, 32_768), 32_767]


def test_ranks_are_neither_added_nor_divided() -> None:
    ranks = tuple(Rank(index=index, token_capacity=1_230_416) for index in range(8))
    node = unified(context=163_840, first_refused=163_834, ranks=ranks)
    check = only_check(node)
    assert check.verdict is Verdict.PASS
    assert check.figures["pool"] == 1_230_416


def test_a_silent_rank_never_passes_but_a_known_shortfall_still_fails() -> None:
    silent = Rank(index=1)
    roomy = unified(ranks=(Rank(index=0, token_capacity=99_999), silent))
    assert only_check(roomy).verdict is Verdict.INCONCLUSIVE
    tight = unified(ranks=(Rank(index=0, token_capacity=17_000), silent))
    assert only_check(tight).verdict is Verdict.FAIL


def test_a_null_context_is_derived_where_only_it_can_be_what_limits() -> None:
    node = unified(
        context=None, first_refused=131_066, ranks=(Rank(index=0, reported_pool=414_382),)
    )
    check = only_check(node)
    assert check.verdict is Verdict.PASS
    assert check.figures["context"] == 131_072
    assert check.figures["danger_band"] is None


def test_a_null_context_stays_unknown_where_the_pool_limits() -> None:
    node = unified(context=None, first_refused=59_862, ranks=(Rank(index=0, reported_pool=59_868),))
    check = only_check(node)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert check.figures["context"] is None
    assert check.figures["required"] is None


def test_a_null_context_stays_unknown_where_the_sliding_window_limits() -> None:
    rank = Rank(index=0, token_capacity=186_368, swa_capacity=18_432)
    node = unified(context=None, first_refused=18_426, ranks=(rank,))
    assert only_check(node).verdict is Verdict.INCONCLUSIVE


def test_somebody_elses_context_does_not_stand_in_for_a_null_one() -> None:
    silent = decode(context=None, first_refused=None, ranks=(Rank(index=0, token_capacity=99_999),))
    shown, unknown = pool_checks(prefill(), silent)
    assert shown.verdict is Verdict.PASS
    assert unknown.verdict is Verdict.INCONCLUSIVE
    assert unknown.target == "decode-1"


def test_the_largest_advertised_context_counts_for_every_node() -> None:
    first, second = pool_checks(
        prefill(pool=50_000, context=16_384), decode(pool=50_000, context=32_768)
    )
    assert first.figures["context"] == second.figures["context"] == 32_768
    # It refuses from its own limit what the deployment promises: its own arithmetic is its pool.
    assert first.verdict is Verdict.FAIL
    assert first.figures["danger_band"] == [limit_of(50_000, 16_384), 32_767]
    assert "its own context of 16,384" in first.reason
    assert second.verdict is Verdict.PASS


def test_an_advertised_context_raises_but_never_lowers() -> None:
    raised = only_check(unified(pool=50_000, context=16_384), advertised=65_536)
    assert raised.figures["context"] == 65_536
    assert raised.verdict is Verdict.FAIL
    lowered = only_check(unified(pool=17_000, context=16_384), advertised=1_000)
    assert lowered.figures["context"] == 16_384
    assert lowered.verdict is Verdict.FAIL


def test_answers_that_contradict_each_other_about_a_rank_never_pass() -> None:
    node = unified(incomplete=("ranks: rank 0 has 20480 tokens by /server_info, 9000 by loads",))
    check = only_check(node)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "9000 by loads" in check.reason
    tight = unified(pool=17_000, incomplete=node.incomplete)
    assert only_check(tight).verdict is Verdict.FAIL


def test_a_doubtful_context_never_passes_unless_the_limit_proves_it() -> None:
    doubt = ("context: GET /v1/models answered 401",)
    # Pool and context are equal, so the limit of 16,378 could be that of either.
    unproved = unified(pool=16_384, context=16_384, incomplete=doubt)
    assert only_check(unproved, headroom="1").verdict is Verdict.INCONCLUSIVE
    assert only_check(replace(unproved, incomplete=()), headroom="1").verdict is Verdict.PASS
    proved = unified(pool=20_480, context=16_384, incomplete=doubt)
    assert only_check(proved).verdict is Verdict.PASS


def test_an_engine_that_shows_several_modes_is_inconclusive() -> None:
    torn = unified(
        reported_role=None,
        flags={"disaggregation_mode": "null"},
        incomplete=("role: its answers show different or unknown disaggregation modes",),
    )
    check = only_check(torn)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "different or unknown disaggregation modes" in check.reason


def test_a_node_that_did_not_answer_is_inconclusive_and_says_what_to_do() -> None:
    silent = Reading(
        node="prefill-9",
        engine="sglang",
        role=Role.PREFILL,
        taken_at=prefill().taken_at,
        problem="no answer within 5 s",
    )
    check = only_check(silent)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "prefill-9" in check.reason
    assert "no answer within 5 s" in check.reason
    assert "bring it up" in check.reason
    assert check.figures["pool"] is None


def test_a_node_in_another_role_than_declared_is_inconclusive_even_where_it_would_fail() -> None:
    node = prefill(pool=681_280, context=1_048_576, reported_role=Role.DECODE)
    check = only_check(node)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "named as prefill" in check.reason


def test_a_node_that_shows_no_mode_is_still_held_against_its_context() -> None:
    assert only_check(prefill(reported_role=None)).verdict is Verdict.PASS


@pytest.mark.parametrize("shown", [0, -5])
def test_a_context_that_cannot_be_is_unknown(shown: int) -> None:
    node = replace(unified(), context=shown, first_refused=None)
    assert only_check(node).verdict is Verdict.INCONCLUSIVE


def test_no_node_is_no_pass() -> None:
    (only,) = PoolCoversContext().judge(FleetReading(readings=()))
    assert isinstance(only, Skipped)


figures = st.integers(min_value=1, max_value=2_000_000)
headrooms = st.decimals(min_value=1, max_value=4, places=2)


@given(pool=figures, context=figures, headroom=headrooms)
def test_pass_means_that_pool_over_headroom_reaches_the_context(
    pool: int, context: int, headroom: Decimal
) -> None:
    check = only_check(unified(pool=pool, context=context), headroom=str(headroom))
    assert (check.verdict is Verdict.PASS) == (pool >= context * headroom)
    refuses_some = pool < context
    assert (check.figures["danger_band"] is not None) == refuses_some


@given(pool=figures, more=st.integers(min_value=0, max_value=2_000_000), context=figures)
def test_a_wider_pool_never_turns_a_pass_into_a_fail(pool: int, more: int, context: int) -> None:
    narrow = only_check(unified(pool=pool, context=context))
    wide = only_check(unified(pool=pool + more, context=context))
    if narrow.verdict is Verdict.PASS:
        assert wide.verdict is Verdict.PASS


@given(
    pool=st.none() | figures,
    context=st.none() | figures,
    first=st.none() | figures,
    sliding=st.none() | figures,
)
def test_no_pass_without_a_pool_and_a_context(
    pool: int | None, context: int | None, first: int | None, sliding: int | None
) -> None:
    node = unified(
        context=context,
        first_refused=first,
        pool=None,
        ranks=(Rank(index=0, token_capacity=pool, swa_capacity=sliding),),
    )
    check = only_check(node)
    derived = first is not None and pool is not None and first + 6 < min(pool, sliding or pool)
    if context is None and not derived:
        assert check.verdict is not Verdict.PASS
    if pool is None and sliding is None and first is None:
        assert check.verdict is Verdict.INCONCLUSIVE


def hybrid(sliding: int, *, window: str | None = None, page: int = 256) -> Reading:
    """Answer a node whose full pool holds its context with headroom."""
    return unified(
        pool=20_480,
        context=16_384,
        page_size=page,
        ranks=(Rank(index=0, token_capacity=20_480, swa_capacity=sliding),),
        flags={"sliding_window": window},
    )


@pytest.mark.parametrize(
    ("sliding", "window", "verdict"),
    [
        # A window of 128 and a page of 256: one step takes 384.
        (256, "128", Verdict.FAIL),
        (383, "128", Verdict.FAIL),
        (384, "128", Verdict.PASS),
        # Without the window a page and one token are needed in any case, and nobody knows more.
        (256, None, Verdict.FAIL),
        (257, None, Verdict.INCONCLUSIVE),
        (256 + 8191, None, Verdict.INCONCLUSIVE),
        (256 + 8192, None, Verdict.PASS),
    ],
)
def test_a_sliding_window_pool_below_one_scheduling_step_serves_nobody(
    sliding: int, window: str | None, verdict: Verdict
) -> None:
    check = only_check(hybrid(sliding, window=window))
    assert check.verdict is verdict, check.reason
    assert check.figures["sliding_window_pool"] == sliding


def test_a_persons_word_tells_the_window_and_is_named() -> None:
    word = Attestation(key="sliding_window", value="128", by="ada")
    check = only_check(replace(hybrid(384), attested={"sliding_window": word}))
    assert check.verdict is Verdict.PASS
    assert check.figures["scheduling_step"] == 384
    assert "ada" in str(check.figures["attested"])
