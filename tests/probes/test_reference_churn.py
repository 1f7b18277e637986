"""Plans reference and churn: corruption is seen where nobody's marker comes back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

import pytest

from common.verdicts import Verdict
from probes.canary.contract import Evidence, RoundOrder
from probes.canary.oracle_trend import Window, judge_trend
from probes.canary.results import RoundResult
from probes.canary.rounds import Acceptance, Outcome, Part, Way
from probes.canary.runner import run_round
from probes.canary.scene import build_scene
from probes.canary.waves import IN_ROTATION
from probes.judgement import Check, Kind
from tests.probes.canary_fakes import FakePair, FakeSurveyor, make_order

ACCEPTED = Acceptance(by="Ada", reason="rehearsal on an idle cluster")
PLANS = ["reference", "churn"]


def fixed(**over: object) -> FakePair:
    return FakePair(version="0.5.22", is_guarded=True, **over)  # type: ignore[arg-type]


def check_of(result: RoundResult, oracle: str) -> Check:
    return next(one for one in result.checks if one.check == f"{result.plan}.{oracle}")


def cordoned(pair: FakePair, plan: str) -> RoundOrder:
    urls = tuple(reading.url for reading in pair.readings())
    surveyor = FakeSurveyor(pair=pair, is_listed=False)
    return make_order(
        pair, plan=plan, surveyor=surveyor, way=Way.PAIR, reached=urls, grant_tokens=None
    )


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("page_size", [1, 16, 64, 128])
async def test_a_sound_pair_passes_out_of_rotation(plan: str, page_size: int) -> None:
    result = await run_round(cordoned(fixed(page_size=page_size), plan))
    assert {one.verdict for one in result.checks} == {Verdict.PASS}


@pytest.mark.parametrize("plan", PLANS)
async def test_a_sound_pair_passes_in_rotation_one_request_at_a_time(plan: str) -> None:
    pair = fixed(pause_s=0.001)
    result = await run_round(make_order(pair, plan=plan))
    assert result.judgement().verdict is Verdict.PASS
    assert pair.most_under_way == 1


async def test_in_rotation_nothing_is_asked_together_and_that_is_said() -> None:
    result = await run_round(make_order(fixed(), plan="reference"))
    waves = [row for row in result.rows if row.wave]
    assert {(row.outcome, row.reason) for row in waves} == {(Outcome.NOT_EXERCISED, IN_ROTATION)}
    together = check_of(result, "together")
    assert (together.verdict, together.required) == (Verdict.NOT_EXERCISED, False)


async def test_an_acceptance_allows_what_is_asked_together() -> None:
    pair = fixed(pause_s=0.001)
    result = await run_round(make_order(pair, plan="reference", acceptance=ACCEPTED))
    together = check_of(result, "together")
    assert (together.verdict, together.required) == (Verdict.PASS, True)
    assert pair.most_under_way > 1


def spoils_together(pair: FakePair, text: str) -> bool:
    del text
    return pair.under_way > 1


async def test_answers_that_others_spoil_fail_what_is_asked_together_alone() -> None:
    pair = fixed(pause_s=0.001, spoils=spoils_together)
    result = await run_round(make_order(pair, plan="reference", acceptance=ACCEPTED))
    assert check_of(result, "together").verdict is Verdict.FAIL
    assert check_of(result, "reference").verdict is Verdict.PASS
    assert check_of(result, "together").kind is Kind.CORRUPTION


def shared_by(one: str, other: str) -> int:
    pairs = takewhile(lambda both: both[0] == both[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


def spoils_shared(exactly: int) -> Callable[[FakePair, str], bool]:
    """Spoil what begins as exactly one earlier prompt did, for so many tokens."""

    def spoils(pair: FakePair, text: str) -> bool:
        shared = [shared_by(text, other) for other in pair.texts if other != text]
        return exactly in shared

    return spoils


@pytest.mark.parametrize("exactly", [63, 64, 65])
async def test_a_beginning_shared_to_the_token_that_spoils_an_answer_is_seen(exactly: int) -> None:
    pair = fixed(spoils=spoils_shared(exactly))
    result = await run_round(make_order(pair, plan="reference"))
    check = check_of(result, "reference")
    assert check.verdict is Verdict.FAIL
    assert f"{exactly:,} tokens" in check.reason


async def test_no_two_prompts_share_a_page_by_chance() -> None:
    pair = fixed(spoils=spoils_shared(66))
    result = await run_round(make_order(pair, plan="reference"))
    assert check_of(result, "reference").verdict is Verdict.PASS


def spoils_after(asked: int) -> Callable[[FakePair, str], bool]:
    return lambda pair, _: len(pair.asked) > asked


@pytest.mark.parametrize("plan", PLANS)
async def test_what_comes_back_spoiled_after_churn_is_corruption_without_a_marker(
    plan: str,
) -> None:
    clean = await run_round(make_order(fixed(), plan=plan))
    alone = sum(row.part is Part.CONTROL for row in clean.rows)
    result = await run_round(make_order(fixed(spoils=spoils_after(alone)), plan=plan))
    assert check_of(result, "reference").verdict is Verdict.FAIL
    assert check_of(result, "reference").kind is Kind.CORRUPTION
    assert check_of(result, "own_nonce").verdict is Verdict.FAIL
    assert check_of(result, "foreign_marker").verdict is not Verdict.FAIL


async def test_decay_over_the_turns_is_a_trend() -> None:
    clean = await run_round(make_order(fixed(), plan="churn"))
    late = 2 * len(clean.rows) // 3
    result = await run_round(make_order(fixed(spoils=spoils_after(late)), plan="churn"))
    assert check_of(result, "trend").verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("right", "verdict"),
    [
        ((16, 16, 16), Verdict.PASS),
        ((16, 16, 15), Verdict.PASS),
        ((16, 12, 10), Verdict.INCONCLUSIVE),
        ((16, 9, 4), Verdict.FAIL),
    ],
)
def test_a_fall_that_chance_hardly_explains_is_no_pass(
    right: tuple[int, ...], verdict: Verdict
) -> None:
    scene = build_scene(fixed().readings(), target="router")
    evidence = Evidence(plan="churn", scene=scene, rows=())
    windows = [Window(answers=16, right=count) for count in right]
    assert judge_trend(evidence, told=windows).verdict is verdict


async def test_a_pair_that_answers_otherwise_each_time_is_not_blamed() -> None:
    count = 0

    def more(text: str) -> str:
        nonlocal count
        del text
        count += 1
        return f"and {count}"

    result = await run_round(make_order(fixed(says_more=more), plan="reference"))
    assert check_of(result, "reference").verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("plan", PLANS)
async def test_an_exposed_pair_is_not_probed_in_rotation(plan: str) -> None:
    pair = FakePair(prefill_pool=10_624, decode_pool=20_480)
    result = await run_round(make_order(pair, plan=plan))
    assert pair.asked == []
    assert {one.verdict for one in result.checks} == {Verdict.NOT_EXERCISED}


async def test_a_tier_that_was_not_reached_is_said() -> None:
    result = await run_round(make_order(fixed(), plan="churn"))
    assert "no tier beyond the pool" in check_of(result, "reference").reason
