"""The exposure gate against the design's words and against an oracle that enumerates lengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import FleetReading, Rank, Reading, Role
from probes.gates.pair_exposure import PairExposure
from probes.judgement import Check, Kind, Skipped
from tests.probes.builders import decode, limit_of, prefill, unified


def exposure_of(*readings: Reading) -> list[Check | Skipped]:
    return list(PairExposure().judge(FleetReading(readings=readings)))


def only_check(*readings: Reading) -> Check:
    (check,) = exposure_of(*readings)
    assert isinstance(check, Check)
    assert check.kind is Kind.CONFIG
    return check


def pair(
    prefill_pool: int,
    decode_pool: int,
    context: int,
    version: str,
    **over: Any,  # noqa: ANN401 - any field of a reading
) -> Check:
    return only_check(
        prefill(pool=prefill_pool, context=context, version=version, **over),
        decode(pool=decode_pool, context=context, version=version),
    )


def test_september_figures() -> None:
    check = pair(681_280, 1_500_032, 1_048_576, "0.5.19")
    assert check.verdict is Verdict.FAIL
    assert check.figures["band"] == [681_274, 1_048_569]
    assert check.target == "prefill-1/decode-1"


def test_the_drill_in_small() -> None:
    check = pair(10_624, 20_480, 16_384, "0.5.19")
    assert check.verdict is Verdict.FAIL
    # Prefill refuses from 10,624 - 6; decode's limit is 16,384 - 6, and it admits one less.
    assert check.figures["band"] == [10_618, 16_377]
    assert "prefill-1 refuses from 10,618 what decode-1 admits to 16,377" in check.reason
    assert "0.5.19 has no guard" in check.reason
    assert "0.5.21 or later" in check.reason


def test_real_pools_of_1024_and_4096() -> None:
    assert pair(1_024, 4_096, 4_096, "0.5.19").figures["band"] == [1_018, 4_089]


def test_equal_pools_have_no_band_and_pass_without_a_guard() -> None:
    check = pair(1_024, 1_024, 4_096, "0.5.19")
    assert check.verdict is Verdict.PASS
    assert check.figures["band"] is None


def test_one_length_is_a_band() -> None:
    check = pair(1_024, 1_025, 4_096, "0.5.19")
    assert check.figures["band"] == [1_018, 1_018]
    assert check.verdict is Verdict.FAIL


@pytest.mark.parametrize("version", ["0.5.20", "0.5.21", "0.5.22", "0.5.23", "0.5.24", "0.6.0"])
def test_a_guarded_prefill_closes_the_band(version: str) -> None:
    check = pair(1_024, 4_096, 4_096, version)
    assert check.verdict is Verdict.PASS
    assert check.figures["band"] == [1_018, 4_089]


@pytest.mark.parametrize("version", ["0.4.6", "0.5.5", "0.5.11", "0.5.19", "0.5.19.post1"])
def test_an_unguarded_prefill_does_not(version: str) -> None:
    assert pair(1_024, 4_096, 4_096, version).verdict is Verdict.FAIL


def test_only_the_version_of_prefill_counts() -> None:
    old = prefill(pool=1_024, context=4_096, version="0.5.19")
    new = prefill(pool=1_024, context=4_096, version="0.5.23")
    assert only_check(old, decode(pool=4_096, context=4_096)).verdict is Verdict.FAIL
    behind = decode(pool=4_096, context=4_096, version="0.5.19")
    assert only_check(new, behind).verdict is Verdict.PASS


def test_auto_truncate_with_a_band_is_exposed_in_every_version() -> None:
    check = pair(1_024, 4_096, 4_096, "0.5.23", allow_auto_truncate=True)
    assert check.verdict is Verdict.FAIL
    assert "--allow-auto-truncate" in check.reason


def test_auto_truncate_never_lifts_an_exposure() -> None:
    assert pair(1_024, 4_096, 4_096, "0.5.19", allow_auto_truncate=True).verdict is Verdict.FAIL


def test_auto_truncate_without_a_band_exposes_nothing() -> None:
    assert pair(4_096, 4_096, 4_096, "0.5.23", allow_auto_truncate=True).verdict is Verdict.PASS


def test_unknown_auto_truncate_matters_only_where_a_guarded_band_stands() -> None:
    unknown = {"allow_auto_truncate": None}
    assert pair(1_024, 4_096, 4_096, "0.5.23", **unknown).verdict is Verdict.INCONCLUSIVE
    assert pair(1_024, 4_096, 4_096, "0.5.19", **unknown).verdict is Verdict.FAIL
    assert pair(4_096, 4_096, 4_096, "0.5.23", **unknown).verdict is Verdict.PASS


@pytest.mark.parametrize("version", ["0.5.19", "0.5.23"])
def test_decode_refusing_what_prefill_admits_is_inconclusive(version: str) -> None:
    check = pair(4_096, 1_024, 4_096, version)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert check.figures["band"] is None
    assert "decode-1 refuses from 1,018 what prefill-1 admits to 4,089" in check.reason


def test_a_band_on_the_other_side_still_fails() -> None:
    wide = decode(
        pool=1_024,
        context=4_096,
        ranks=(Rank(index=0, token_capacity=1_024), Rank(index=1, token_capacity=4_096)),
    )
    check = only_check(prefill(pool=2_048, context=4_096, version="0.5.19"), wide)
    assert check.verdict is Verdict.FAIL
    assert check.figures["band"] == [limit_of(2_048, 4_096), limit_of(4_096, 4_096) - 1]


@pytest.mark.parametrize("version", [None, "", "garbage", "0.5.23rc1", "0.5.23.dev7", "0.5.23+x"])
def test_an_unknown_version_is_inconclusive_only_where_a_band_stands(version: str | None) -> None:
    small = prefill(pool=1_024, context=4_096, version=version)
    assert only_check(small, decode(pool=4_096, context=4_096)).verdict is Verdict.INCONCLUSIVE
    assert only_check(small, decode(pool=1_024, context=4_096)).verdict is Verdict.PASS


@pytest.mark.parametrize("blind", ["prefill-1", "decode-1"])
def test_an_unknown_limit_is_inconclusive_in_every_version(blind: str) -> None:
    sides = [prefill(), decode()]
    readings = [replace(side, first_refused=None) if side.node == blind else side for side in sides]
    check = only_check(*readings)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert blind in check.reason


def test_a_silent_rank_is_inconclusive_unless_a_known_rank_is_exposed() -> None:
    silent = (Rank(index=0, token_capacity=4_096), Rank(index=1))
    blind = decode(pool=4_096, context=4_096, ranks=silent)
    equal = prefill(pool=4_096, context=4_096, version="0.5.19")
    assert only_check(equal, blind).verdict is Verdict.INCONCLUSIVE
    small = prefill(pool=1_024, context=4_096, version="0.5.19")
    assert only_check(small, blind).verdict is Verdict.FAIL


@pytest.mark.parametrize("name", ["ranks", "first_refused"])
def test_a_contradiction_about_limits_never_passes(name: str) -> None:
    odd = decode(incomplete=(f"{name}: two figures",))
    check = only_check(prefill(), odd)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "two figures" in check.reason
    assert only_check(prefill(), decode(incomplete=("other: x",))).verdict is Verdict.PASS


def test_a_pair_behind_a_node_that_shows_several_modes_is_never_skipped() -> None:
    torn = unified(
        reported_role=None,
        flags={"disaggregation_mode": "prefill"},
        incomplete=("role: its answers show different or unknown disaggregation modes",),
    )
    assert only_check(torn).verdict is Verdict.INCONCLUSIVE


def test_ranks_take_the_figures_that_widen_the_band() -> None:
    uneven = prefill(
        pool=2_048,
        context=4_096,
        version="0.5.19",
        ranks=(Rank(index=0, token_capacity=2_048), Rank(index=1, token_capacity=1_024)),
    )
    wide = decode(
        pool=1_500,
        context=4_096,
        ranks=(Rank(index=0, token_capacity=1_500), Rank(index=1, token_capacity=3_000)),
    )
    check = only_check(uneven, wide)
    assert check.figures["band"] == [limit_of(1_024, 4_096), limit_of(3_000, 4_096) - 1]


def test_ranks_with_the_figures_of_rank_0_have_its_limit() -> None:
    # Hybrid pools: the limit is the sliding window's, and rank 1 is rank 0's twin.
    twins = tuple(Rank(index=n, token_capacity=186_368, swa_capacity=18_432) for n in (0, 1))
    check = only_check(
        prefill(context=1_048_576, first_refused=18_426, ranks=twins, version="0.5.19"),
        decode(context=1_048_576, first_refused=18_426, ranks=twins, version="0.5.19"),
    )
    assert check.verdict is Verdict.PASS
    assert check.figures["band"] is None


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_half_a_pair_is_inconclusive_and_says_what_is_missing(role: str) -> None:
    present, missing = (prefill(), "decode") if role == "prefill" else (decode(), "prefill")
    check = only_check(present)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert missing in check.target
    assert f"no {missing} node was named" in check.reason


def test_only_unified_nodes_skip_with_a_reason() -> None:
    (skipped,) = exposure_of(unified("a"), unified("b"))
    assert isinstance(skipped, Skipped)
    assert "no pair" in skipped.reason


@pytest.mark.parametrize("said", [Role.PREFILL, Role.DECODE])
def test_a_pair_that_hides_behind_a_declared_role_is_never_skipped(said: Role) -> None:
    check = only_check(unified(reported_role=said))
    assert check.verdict is Verdict.INCONCLUSIVE
    assert f"runs as {said}" in check.reason


def test_the_wrong_role_makes_the_pair_inconclusive_even_where_a_band_stands() -> None:
    odd = prefill(pool=1_024, context=4_096, version="0.5.19", reported_role=Role.UNIFIED)
    assert only_check(odd, decode(pool=4_096, context=4_096)).verdict is Verdict.INCONCLUSIVE


def test_a_role_that_the_engine_does_not_show_never_passes() -> None:
    assert only_check(prefill(reported_role=None), decode()).verdict is Verdict.INCONCLUSIVE


def test_an_engine_without_a_rule_is_inconclusive() -> None:
    assert only_check(prefill(engine="vllm"), decode(engine="vllm")).verdict is Verdict.INCONCLUSIVE
    assert only_check(prefill(), decode(engine="vllm")).verdict is Verdict.INCONCLUSIVE


def test_a_silent_node_is_named_with_what_happened() -> None:
    silent = replace(decode(), problem="connection refused")
    check = only_check(prefill(), silent)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "decode-1 could not be read: connection refused" in check.reason


def test_every_pair_has_its_own_check() -> None:
    found = exposure_of(
        prefill("p0", pool=1_024, context=4_096, version="0.5.19"),
        prefill("p1", pool=4_096, context=4_096, version="0.5.19"),
        decode("d0", pool=4_096, context=4_096),
        decode("d1", pool=1_024, context=4_096),
    )
    verdicts = {one.target: one.verdict for one in found if isinstance(one, Check)}
    assert verdicts == {
        "p0/d0": Verdict.FAIL,
        "p0/d1": Verdict.PASS,
        "p1/d0": Verdict.PASS,
        "p1/d1": Verdict.INCONCLUSIVE,
    }


small = st.integers(min_value=8, max_value=60)
versions = st.sampled_from([("0.5.19", False), ("0.5.20", True), ("0.5.23", True)])


@given(
    prefill_pools=st.lists(small, min_size=1, max_size=3),
    decode_pools=st.lists(small, min_size=1, max_size=3),
    contexts=st.tuples(small, small),
    version=versions,
    truncates=st.booleans(),
)
def test_the_rule_against_an_oracle_that_asks_every_length(
    prefill_pools: list[int],
    decode_pools: list[int],
    contexts: tuple[int, int],
    version: tuple[str, bool],
    *,
    truncates: bool,
) -> None:
    name, is_guarded = version

    def admitted(pool: int, context: int) -> set[int]:
        return {length for length in range(1, 80) if length < min(context - 1, pool - 1) - 5}

    sides = [
        [admitted(pool, context) for pool in pools]
        for pools, context in zip((prefill_pools, decode_pools), contexts, strict=True)
    ]
    lengths = set(range(1, 80))
    # A request may land on any rank of either side.
    exposed = {n for p in sides[0] for d in sides[1] for n in (lengths - p) & d}
    stuck = {n for p in sides[0] for d in sides[1] for n in p - d}
    readings = [
        build(
            pool=pools[0],
            context=context,
            version=name,
            allow_auto_truncate=truncates,
            ranks=tuple(Rank(index=i, token_capacity=pool) for i, pool in enumerate(pools)),
        )
        for build, pools, context in zip(
            (prefill, decode), (prefill_pools, decode_pools), contexts, strict=True
        )
    ]
    check = only_check(*readings)
    if exposed and (truncates or not is_guarded):
        expected = Verdict.FAIL
    else:
        expected = Verdict.INCONCLUSIVE if stuck else Verdict.PASS
    assert check.verdict is expected
    assert check.figures["band"] == ([min(exposed), max(exposed)] if exposed else None)


optional = st.none() | st.integers(min_value=1, max_value=5_000)


@given(first=optional, last=optional, version=st.sampled_from([None, "0.5.19", "0.5.23"]))
def test_no_pass_without_both_limits(
    first: int | None, last: int | None, version: str | None
) -> None:
    check = only_check(
        prefill(first_refused=first, version=version), decode(first_refused=last, version=version)
    )
    if first is None or last is None:
        assert check.verdict is Verdict.INCONCLUSIVE
        assert check.figures["band"] is None


@given(pool=st.integers(10, 5_000), more=st.integers(0, 5_000))
def test_a_wider_prefill_pool_never_opens_a_band(pool: int, more: int) -> None:
    narrow = pair(pool, 4_096, 4_096, "0.5.19")
    wide = pair(pool + more, 4_096, 4_096, "0.5.19")
    if narrow.verdict is not Verdict.FAIL:
        assert wide.verdict is not Verdict.FAIL
