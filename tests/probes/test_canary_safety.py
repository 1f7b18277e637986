"""Safety rules 1 and 4: when a round may be sent, hang bands, budgets. Pure decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.reading import FleetReading, Load, Reading, Role, Worker
from probes.canary.budget import default_allowance, object_to_cost
from probes.canary.rounds import Acceptance, Cost, Duty, Way
from probes.canary.safety import Clearance, Question, clear, in_rotation
from probes.canary.scene import FigureMissing, build_scene
from probes.canary.survey import Survey, compare_surveys
from probes.contract import GATES
from probes.gates import pair_exposure
from probes.hang import DEFAULT_RESERVE, hang_band
from probes.judgement import Check
from tests.probes.builders import decode, prefill, unified
from tests.probes.canary_fakes import DECODE_URL, PREFILL_URL

ACCEPTED = Acceptance(by="Ada", reason="idle cluster")
PREFILL = Worker(worker_id="1", url=PREFILL_URL, role=Role.PREFILL, is_healthy=True)
DECODE = Worker(worker_id="2", url=DECODE_URL, role=Role.DECODE, is_healthy=True)


def free(tokens: int | None) -> Load:
    return Load(running=0, waiting=0, queues={"waiting": 0}, free_tokens=tokens)


def idle_prefill(**over: Any) -> Reading:  # noqa: ANN401 - fields of a reading
    return prefill(load=free(20_480), **over)


def healthy() -> tuple[Reading, Reading]:
    return prefill(url=PREFILL_URL, load=free(20_480)), decode(url=DECODE_URL, load=free(20_480))


def exposed() -> tuple[Reading, Reading]:
    first, second = healthy()
    limit = 10_618
    small = prefill(url=PREFILL_URL, pool=10_624, version="0.5.19", first_refused=limit)
    return replace(first, **{name: getattr(small, name) for name in FIGURES}), second


FIGURES = ("pool", "first_refused", "version", "ranks")


def survey_of(*readings: Reading, listed: tuple[Worker, ...] | None = (PREFILL, DECODE)) -> Survey:
    return Survey(readings=readings, listed=listed)


def decide(
    survey: Survey,
    *,
    way: Way = Way.ROUTER,
    acceptance: Acceptance | None = None,
    reached: tuple[Reading, ...] | None = None,
) -> Clearance:
    nodes = survey.readings if reached is None else reached
    assert pair_exposure.KEY in GATES
    judged = GATES.get(pair_exposure.KEY).judge(FleetReading(readings=in_rotation(survey, nodes)))
    checks = tuple(one for one in judged if isinstance(one, Check))
    question = Question(way=way, survey=survey, reached=nodes, exposure=checks)
    return clear(question, acceptance)


def test_a_healthy_pair_in_rotation_may_be_probed() -> None:
    assert decide(survey_of(*healthy())).is_granted
    assert decide(survey_of(*healthy()), way=Way.PAIR).is_granted


@pytest.mark.parametrize("way", list(Way))
def test_an_exposed_pair_in_rotation_needs_a_named_person(way: Way) -> None:
    survey = survey_of(*exposed())
    refused = decide(survey, way=way)
    assert not refused.is_granted
    assert "is in rotation" in refused.refusal
    assert decide(survey, way=way, acceptance=ACCEPTED).is_accepted


def test_an_exposed_pair_out_of_rotation_needs_nobody() -> None:
    clearance = decide(survey_of(*exposed(), listed=()), way=Way.PAIR)
    assert clearance.is_cordoned
    assert clearance.is_granted
    assert not clearance.is_accepted


@pytest.mark.parametrize("way", list(Way))
def test_an_unreadable_list_is_never_accepted(way: Way) -> None:
    survey = survey_of(*healthy(), listed=None)
    clearance = decide(survey, way=way, acceptance=ACCEPTED)
    assert not clearance.is_granted
    assert not clearance.is_cordoned
    assert "cannot be read" in clearance.refusal


def test_a_list_that_names_one_of_the_two_keeps_the_pair_in_rotation() -> None:
    clearance = decide(survey_of(*exposed(), listed=(DECODE,)), way=Way.PAIR)
    assert not clearance.is_cordoned
    assert not clearance.is_granted


def test_another_spelling_of_this_machine_proves_nothing() -> None:
    other = replace(DECODE, url=DECODE_URL.replace("127.0.0.1", "localhost"))
    survey = survey_of(*exposed(), listed=(other,))
    assert not decide(survey, way=Way.PAIR).is_cordoned


def test_the_same_process_under_another_name_keeps_the_pair_in_rotation() -> None:
    first, second = exposed()
    second = replace(second, random_seed="42")
    alias = replace(second, node="decode-2", url="http://10.0.0.9:30000")
    listed = (replace(DECODE, url=alias.url),)
    survey = survey_of(first, second, alias, listed=listed)
    assert not decide(survey, way=Way.PAIR, reached=(first, second)).is_cordoned


def test_a_listed_worker_that_was_not_read_is_never_accepted() -> None:
    stranger = Worker(
        worker_id="3", url="http://127.0.0.1:29999", role=Role.PREFILL, is_healthy=True
    )
    survey = survey_of(*healthy(), listed=(PREFILL, DECODE, stranger))
    assert "was not read" in decide(survey, acceptance=ACCEPTED).refusal


def test_a_listed_worker_without_a_role_is_never_accepted() -> None:
    survey = survey_of(*healthy(), listed=(PREFILL, DECODE, replace(DECODE, role=None)))
    assert not decide(survey, acceptance=ACCEPTED).is_granted


def test_a_node_that_did_not_answer_is_never_accepted() -> None:
    first, second = healthy()
    silent = replace(second, problem="it did not answer within 10 s")
    assert not decide(survey_of(first, silent), acceptance=ACCEPTED).is_granted
    listed_elsewhere = survey_of(first, silent, listed=())
    assert not decide(listed_elsewhere, way=Way.PAIR, acceptance=ACCEPTED).is_granted


def test_a_named_node_that_the_router_does_not_list_is_not_passed_over() -> None:
    survey = replace(survey_of(*healthy()), named=("http://127.0.0.1:28888",))
    assert not decide(survey, acceptance=ACCEPTED).is_granted


def test_unequal_limits_of_a_fixed_version_need_a_named_person() -> None:
    first, second = exposed()
    survey = survey_of(replace(first, version="0.5.22"), second)
    assert "unequal" in decide(survey).refusal
    assert decide(survey, acceptance=ACCEPTED).is_granted


@pytest.mark.parametrize("acceptance", [replace(ACCEPTED, by=" "), replace(ACCEPTED, reason="")])
def test_an_acceptance_without_name_or_reason_is_none(acceptance: Acceptance) -> None:
    assert not decide(survey_of(*exposed()), acceptance=acceptance).is_granted


def test_an_acceptance_is_good_for_its_fingerprints_only() -> None:
    nodes = exposed()
    prints = frozenset(one.fingerprint for one in nodes)
    good = replace(ACCEPTED, fingerprints=prints)
    assert decide(survey_of(*nodes), acceptance=good).is_granted
    moved = replace(nodes[0], started="2026-11-29T09:30:00Z")
    assert not decide(survey_of(moved, nodes[1]), acceptance=good).is_granted


def test_a_router_without_workers_reaches_nothing() -> None:
    assert not decide(survey_of(listed=()), reached=(), acceptance=ACCEPTED).is_granted


@given(st.integers(0, 50_000), st.integers(0, 2_000), st.integers(1, 500), st.integers(1, 60_000))
def test_the_hang_band_is_what_decode_admits_and_cannot_reserve(
    pool: int, reserve: int, new: int, last: int
) -> None:
    band = hang_band(free=pool, reserve=reserve, max_new_tokens=new, last_admitted=last)
    for length in {1, last, *(range(max(1, pool - reserve - 2), pool - reserve + 3))}:
        if not 1 <= length <= last:
            continue
        hangs = length + max(reserve, new) > pool
        assert hangs == (band is not None and band[0] <= length <= band[1])


def test_an_unknown_reserve_is_taken_as_the_default() -> None:
    assert hang_band(free=1_024, reserve=None, max_new_tokens=1, last_admitted=1_017) == (
        1_024 - DEFAULT_RESERVE + 1,
        1_017,
    )


def test_the_recorded_hang_is_in_the_band() -> None:
    # Seen on 0.5.19: 1,010 tokens at a pool of 1,024 with 16 reserved; 990 were answered.
    band = hang_band(free=1_024, reserve=16, max_new_tokens=8, last_admitted=1_017)
    assert band == (1_009, 1_017)


@pytest.mark.parametrize(
    ("pool", "page", "longest"),
    [
        # Prompt, one new token and one page stay below the free pool (PrefillAdder, 0.5.19).
        (10_624, 64, 10_558),
        (1_024, 1, 1_021),
        (10_624, None, 10_558),
    ],
)
def test_what_prefill_admits_and_cannot_schedule_is_a_hang_band_too(
    pool: int, page: int | None, longest: int
) -> None:
    side = prefill(pool=pool, page_size=page, load=free(pool))
    scene = build_scene([side, decode(load=free(20_480))], target="router")
    assert scene.longest_fitting(1) == longest
    assert scene.hang_at(longest, 192) == ""
    limit = scene.first_refused
    blocked = [length for length in range(longest + 1, limit) if scene.hang_at(length, 1)]
    assert blocked == list(range(longest + 1, limit))
    assert scene.hang_at(limit, 1) == ""


def test_a_unified_node_counts_its_new_tokens_and_a_page() -> None:
    scene = build_scene([unified(pool=1_024, page_size=16, load=free(1_024))], target="router")
    assert scene.hang_at(1_024 - 16 - 8 - 1, 8) == ""
    assert "could never schedule" in scene.hang_at(1_024 - 16 - 8, 8)


def test_without_a_free_pool_there_is_no_scene() -> None:
    with pytest.raises(FigureMissing, match="free pool"):
        build_scene([idle_prefill(), decode(load=free(None))], target="router")
    with pytest.raises(FigureMissing, match="free pool"):
        build_scene([idle_prefill(), decode()], target="router")
    with pytest.raises(FigureMissing, match="prefill-1 does not show its free pool"):
        build_scene([prefill(), decode(load=free(20_480))], target="router")


def test_without_a_limit_there_is_no_scene() -> None:
    with pytest.raises(FigureMissing, match="limit"):
        build_scene([idle_prefill(first_refused=None), decode(load=free(20_480))], target="router")


def test_september_has_the_figures_of_the_design() -> None:
    first, second = exposed()
    scene = build_scene([first, second], target="router")
    assert scene.band == (10_618, 16_377)
    assert (scene.last_admitted, scene.first_refused, scene.decode_last) == (10_617, 10_618, 16_377)
    assert scene.duty_at(10_617) is Duty.ANSWER
    assert scene.duty_at(10_618) is Duty.REFUSAL


def test_a_unified_node_is_a_pair_with_itself() -> None:
    scene = build_scene([unified(load=free(20_480))], target="router")
    assert scene.band is None
    assert scene.last_admitted == 16_377


def test_between_two_prefills_neither_answer_nor_refusal_is_owed() -> None:
    small = prefill("prefill-2", pool=10_624, load=free(10_624))
    scene = build_scene([idle_prefill(), small, decode(load=free(20_480))], target="router")
    assert scene.duty_at(10_617) is Duty.ANSWER
    assert scene.duty_at(12_000) is Duty.EITHER
    assert scene.duty_at(16_378) is Duty.REFUSAL


@given(st.integers(0, 10**7), st.integers(1, 10**7), st.none() | st.integers(0, 10**7))
def test_a_cost_is_allowed_by_share_by_grant_or_out_of_rotation(
    tokens: int, pool: int, grant: int | None
) -> None:
    cost = Cost(tokens=tokens)
    objection = object_to_cost(cost, pool=pool, grant_tokens=grant, is_cordoned=False)
    assert (objection == "") == (tokens <= max(pool * 5 // 100, grant or 0))
    if objection:
        assert f"--budget-tokens {tokens}" in objection
    assert object_to_cost(cost, pool=pool, grant_tokens=grant, is_cordoned=True) == ""
    assert default_allowance(pool) <= pool / 20


def test_a_changed_list_or_node_is_drift() -> None:
    before = survey_of(*healthy())
    assert not compare_surveys(before, before).text
    assert compare_surveys(before, replace(before, listed=(PREFILL,))).changes
    first, second = healthy()
    restarted = survey_of(replace(first, started="2026-11-29T11:00:00Z"), second)
    assert compare_surveys(before, restarted).changes
    unread = compare_surveys(before, replace(before, listed=None))
    assert unread.gaps
    assert not unread.changes
