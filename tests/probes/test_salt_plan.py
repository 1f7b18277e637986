"""The plan salt: what a prefix cache tells others, with salts and without, by hand-made rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.registry import load_plugins
from common.verdicts import Verdict
from probes.canary.contract import PLANS
from probes.canary.oracle_salt import arms_of
from probes.canary.ranks import chance_of_sooner, least_chance
from probes.canary.rounds import Outcome, Part, Row, cost_of
from probes.judgement import Check, Kind
from tests.probes.made_rows import answered, evidence, scene

load_plugins("probes.plans")
PLAN = PLANS.get("salt")
COUNTED = 2
SENDINGS = PLAN.sendings(scene())
#: Seconds to the first token, and cached tokens, of a prompt that a cache knows and of a new one.
HIT, MISS = (0.1, 960), (1.0, 0)


def served(*, shares_salted: bool, shares_bare: bool, reports: bool = True) -> list[Row]:
    """Answer rows of an engine whose cache knows a prompt by its identity, or shares it."""
    known: dict[str, set[tuple[str, str]]] = {}
    rows = []
    for row in answered(SENDINGS):
        seen = known.setdefault(row.script, set())
        shares = shares_salted if row.salt else shares_bare
        is_hit = (row.tenant, row.salt) in seen or (shares and bool(seen))
        seconds, cached = HIT if is_hit and row.script else MISS
        seen.add((row.tenant, row.salt))
        rows.append(
            replace(
                row,
                first_token_s=seconds + row.position / 10_000,
                cached_tokens=cached if reports else None,
            )
        )
    return rows


def checks(rows: Sequence[Row]) -> dict[str, Check]:
    found = PLAN.judge(evidence("salt", rows))
    return {one.check.removeprefix("salt."): one for one in found}


def test_each_arm_has_enough_prompts_with_salts_and_without() -> None:
    for is_salted in (True, False):
        rows = [row for row in answered(SENDINGS) if bool(row.salt) is is_salted and row.script]
        arms = arms_of(evidence("salt", rows))
        assert len(arms.new) == len(arms.same) == len(arms.other) >= 8
        assert {row.tenant for row in arms.other} == {"tenant-a", "tenant-b"}


def test_every_tenant_has_a_salt_of_its_own_and_a_few_prompts_are_not_streamed() -> None:
    salts = {(one.is_by_filler, one.salt) for one in SENDINGS if one.salt}
    assert len(salts) == len({salt for _, salt in salts}) == 2
    whole = [one for one in SENDINGS if not one.form.is_streamed]
    assert len({one.script for one in whole}) == COUNTED
    assert all(one.salt for one in whole)
    assert len({one.length for one in SENDINGS if one.script}) == 1


def test_the_arms_are_interleaved_by_the_rounds_seed() -> None:
    def places(seed: int) -> list[str]:
        return [one.purpose.split(",")[0] for one in PLAN.sendings(scene(seed=seed))]

    assert places(1) == places(1) != places(2)
    last_new = max(at for at, name in enumerate(places(1)) if name == "new")
    first_other = places(1).index("other identity")
    assert first_other < len(SENDINGS) // 4 < len(SENDINGS) // 2 < last_new


@pytest.mark.parametrize("seed", range(5))
def test_a_prompt_comes_again_before_a_cache_of_half_the_pool_would_drop_it(seed: int) -> None:
    figures = scene(seed=seed)
    sendings = PLAN.sendings(figures)
    for script in {one.script for one in sendings if one.script}:
        places = [at for at, one in enumerate(sendings) if one.script == script]
        kept = {(one.script, one.is_by_filler) for one in sendings[places[0] : places[-1] + 1]}
        assert sum(sendings[1].length for _ in kept) <= figures.pool // 2


@pytest.mark.parametrize("allowance", [0, 30_000, 10_000_000])
def test_the_cost_is_bounded(allowance: int) -> None:
    figures = {"pool": 700_032, "context": 1_048_576}
    sendings = PLAN.sendings(scene(**figures, allowance=allowance))
    # 256 tokens are the shortest prompt that tells something; the control answers with 64.
    assert cost_of(sendings).tokens <= max(allowance, len(sendings) * (256 + 4) + 64)


def test_salts_that_keep_apart_pass_and_what_is_shared_without_them_is_advice() -> None:
    found = checks(served(shares_salted=False, shares_bare=True))
    assert found["foreign_hit"].verdict is Verdict.PASS
    assert found["foreign_speed"].verdict is Verdict.PASS
    shared = found["unsalted"]
    assert (shared.verdict, shared.required, shared.kind) == (Verdict.FAIL, False, Kind.TIMING)


def test_a_cache_that_ignores_salts_is_found_by_count_and_by_time() -> None:
    found = checks(served(shares_salted=True, shares_bare=True))
    assert (found["foreign_hit"].verdict, found["foreign_hit"].kind) == (Verdict.FAIL, Kind.LEAK)
    speed = found["foreign_speed"]
    assert (speed.verdict, speed.kind) == (Verdict.FAIL, Kind.TIMING)
    assert found["foreign_hit"].figures["cached_tokens"] == HIT[1]


def test_an_engine_that_reports_no_cached_tokens_is_judged_by_time_alone() -> None:
    found = checks(served(shares_salted=True, shares_bare=False, reports=False))
    assert (found["foreign_hit"].verdict, found["foreign_hit"].required) == (
        Verdict.INCONCLUSIVE,
        False,
    )
    assert found["foreign_speed"].verdict is Verdict.FAIL
    sound = checks(served(shares_salted=False, shares_bare=False, reports=False))
    assert sound["foreign_speed"].verdict is Verdict.PASS
    assert sound["unsalted"].verdict is Verdict.INCONCLUSIVE


def test_no_cache_at_all_is_not_exercised() -> None:
    rows = [
        replace(row, cached_tokens=0, first_token_s=MISS[0])
        for row in served(shares_salted=False, shares_bare=False)
    ]
    found = checks(rows)
    assert found.pop("answered").verdict is Verdict.PASS
    assert {one.verdict for one in found.values()} == {Verdict.NOT_EXERCISED}


def test_a_median_that_noise_made_is_no_finding() -> None:
    """Most of another's prompts came at once, and the others later than any new one."""
    rows = served(shares_salted=False, shares_bare=False)
    other = {row.request for row in arms_of(evidence("salt", rows)).other if row.salt}
    by_turns = iter([HIT[0]] * 6 + [3.0] * 4)
    noisy = [
        replace(row, first_token_s=next(by_turns)) if row.salt and _is_other(row, other) else row
        for row in rows
    ]
    found = checks(noisy)["foreign_speed"]
    assert found.verdict is Verdict.INCONCLUSIVE


def _is_other(row: Row, scripts: set[str]) -> bool:
    return row.request in scripts and row.purpose.startswith("other")


def test_two_tenants_with_one_key_show_nothing_without_salts() -> None:
    rows = served(shares_salted=False, shares_bare=True)
    found = {one.check: one for one in PLAN.judge(evidence("salt", rows, is_same_key=True))}
    assert found["salt.unsalted"].verdict is Verdict.NOT_EXERCISED
    assert found["salt.foreign_speed"].verdict is Verdict.PASS


def test_a_prompt_that_only_fails_for_another_identity_is_an_outage() -> None:
    rows = [
        replace(row, outcome=Outcome.FAILED, reason="status 500") if _is_other_row(row) else row
        for row in served(shares_salted=False, shares_bare=False)
    ]
    found = checks(rows)
    assert (found["answered"].verdict, found["answered"].kind) == (Verdict.FAIL, Kind.AVAILABILITY)
    assert found["foreign_speed"].verdict is Verdict.NOT_EXERCISED


def _is_other_row(row: Row) -> bool:
    return row.purpose == "other identity, salted"


def test_a_round_that_was_not_sent_has_the_same_checks() -> None:
    found = PLAN.not_exercised("router", "no grant")
    assert [one.check for one in found] == [f"salt.{oracle}" for oracle in PLAN.oracles]
    judged = PLAN.judge(evidence("salt", ()))
    assert [(one.check, one.kind) for one in judged] == [(one.check, one.kind) for one in found]
    assert Verdict.PASS not in {one.verdict for one in judged}
    assert SENDINGS[0].part is Part.CONTROL


@given(
    sooner=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    later=st.lists(st.integers(0, 9), min_size=1, max_size=4),
)
def test_the_chance_counts_every_order_of_the_ranks(sooner: list[int], later: list[int]) -> None:
    below = sum(one < other for one in sooner for other in later)
    places = range(len(sooner) + len(later))
    orders = [*combinations(places, len(sooner))]
    as_far = 0
    for chosen in orders:
        others = [place for place in places if place not in chosen]
        as_far += sum(one < other for one in chosen for other in others) >= below
    expected = as_far / len(orders)
    assert chance_of_sooner([float(one) for one in sooner], [float(one) for one in later]) == (
        pytest.approx(expected)
    )


def test_samples_that_do_not_overlap_have_the_least_chance_and_large_ones_agree_nearly() -> None:
    assert chance_of_sooner([1, 2, 3], [4, 5, 6]) == pytest.approx(least_chance(3, 3))
    assert least_chance(3, 3) == pytest.approx(1 / 20)
    small = chance_of_sooner(list(range(30)), list(range(6, 36)))
    large = chance_of_sooner(list(range(31)), list(range(6, 37)))
    assert large == pytest.approx(small, rel=0.2)
    assert chance_of_sooner(list(range(40)), list(range(40))) == pytest.approx(0.5, abs=0.1)
