"""The plan proxy_aborts: what counters of both engines come to, judged by hand-made looks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.contract import ENGINES, Answer, Completion, NodeCapture
from fleet.reading import Load, Role, Worker
from probes.canary import departing
from probes.canary.contract import PLANS, Evidence, RoundOrder
from probes.canary.departure import Episode, Glance, NodeCount, glance_at
from probes.canary.departure_record import departures_document, judge_saved
from probes.canary.results import row_document
from probes.canary.rounds import Acceptance, Duty, Outcome, Part, Row, Stay, Way
from probes.canary.runner import run_round
from probes.canary.scene import PairFigures, Scene
from probes.canary.survey import Survey
from probes.judgement import Check, Kind
from tests.probes.builders import TAKEN_AT, decode, prefill
from tests.probes.canary_fakes import DECODE_URL, PREFILL_URL, FakePair, Recorder, make_order

load_plugins("probes.plans")
load_plugins("fleet.engines")

LENGTH, NEW = 1_000, 64
Counts = dict[str, Any]
#: What each node had counted before an episode began.
START: Counts = {
    "aborted": 3,
    "finished": 10,
    "generated": 100,
    "prompt_tokens": 5_000,
    "in_hand": 0,
    "used_tokens": 0,
}
IDLE: Counts = {}
BUSY: Counts = {"in_hand": 1, "used_tokens": LENGTH}
#: Grown by one whole request of ours; of a prefill node it makes one token.
COMPUTED: Counts = {"finished": 1, "generated": 1, "prompt_tokens": LENGTH}
ANSWERED: Counts = {"finished": 1, "generated": NEW, "prompt_tokens": LENGTH}
ABORTED: Counts = {"aborted": 1}
#: Given up with twenty tokens said.
CUT: Counts = {"aborted": 1, "finished": 1, "generated": 20, "prompt_tokens": LENGTH}


def count(role: Role, grown: Counts, **over: Any) -> NodeCount:  # noqa: ANN401
    figures = {name: value + grown.get(name, 0) for name, value in START.items()}
    told: Counts = {"node": f"{role}-1", "version": "0.5.23", **figures, **over}
    return NodeCount(role=role, **told)


def look(at_s: float, prefill: Counts, decode: Counts) -> Glance:
    return Glance(
        since_s=at_s,
        until_s=at_s + 0.05,
        nodes=(count(Role.PREFILL, prefill), count(Role.DECODE, decode)),
    )


def episode(stay: Stay, *looks: Glance, before: Glance | None = None, new: int = NEW) -> Episode:
    return Episode(
        stay=stay,
        target="router",
        length=LENGTH,
        max_new_tokens=new,
        is_answered=stay is Stay.WHOLE,
        seconds=4.0 if stay is Stay.WHOLE else 1.0,
        before=before or look(0.0, IDLE, IDLE),
        after=looks,
    )


STAYED = episode(Stay.WHOLE, look(0.1, COMPUTED, COMPUTED), new=1)
#: Whoever leaves the pair itself is noticed within 0.55 s.
DIRECT = episode(Stay.LEAVES_PAIR, look(0.0, BUSY, BUSY), look(0.5, ABORTED, ABORTED))
THEN_TOLD = (
    look(0.0, BUSY, BUSY),
    look(1.0, BUSY, BUSY),
    look(2.0, COMPUTED, BUSY),
    look(3.0, COMPUTED, CUT),
)
NEVER_TOLD = (*THEN_TOLD[:3], look(3.0, COMPUTED, BUSY), look(4.0, COMPUTED, ANSWERED))


def row(part: Part, duty: Duty, outcome: Outcome, **over: Any) -> Row:  # noqa: ANN401
    figures: dict[str, Any] = {
        "position": 0,
        "part": part,
        "purpose": "a test",
        "tenant": "tenant-b",
        "request": "r",
        "length": LENGTH,
        "max_new_tokens": NEW,
        "duty": duty,
        "outcome": outcome,
        "prompt_tokens": LENGTH if outcome is Outcome.ANSWERED else None,
        "seconds": 1.0,
    }
    return Row(**(figures | over))


CONTROL_ROW = row(Part.CONTROL, Duty.ANSWER, Outcome.ANSWERED, status=200)
ASK_ROW = row(Part.ASK, Duty.EITHER, Outcome.LEFT)
DIRECT_ROW = row(Part.CONTROL, Duty.EITHER, Outcome.LEFT)
ROWS = (CONTROL_ROW, ASK_ROW, DIRECT_ROW)


def scene(**over: Any) -> Scene:  # noqa: ANN401
    pair = PairFigures(
        name="p/d",
        prefill_first_refused=16_378,
        prefill_all_refuse=16_378,
        decode_first_refused=16_378,
        decode_all_refuse=16_378,
        prefill_free=20_480,
        prefill_page=64,
        decode_free=20_480,
        reserve=512,
    )
    figures: dict[str, Any] = {
        "target": "router",
        "pairs": (pair,),
        "page_size": 64,
        "pool": 20_480,
        "fill": 20_480,
        "context": 16_384,
        "allowance": 1_024,
    }
    return Scene(**(figures | over))


def judge(
    *looks: Glance,
    rows: tuple[Row, ...] = ROWS,
    stayed: Episode | None = STAYED,
    direct: Episode | None = DIRECT,
    before: Glance | None = None,
) -> tuple[Check, Check]:
    asked = episode(Stay.LEAVES, *looks, before=before) if looks else None
    episodes = tuple(one for one in (stayed, asked, direct) if one is not None)
    evidence = Evidence(plan="proxy_aborts", scene=scene(), rows=rows, episodes=episodes)
    aborts, let_go = PLANS.get("proxy_aborts").judge(evidence)
    assert (aborts.check, let_go.check) == ("proxy_aborts", "proxy_aborts.let_go")
    return aborts, let_go


def test_a_prompt_that_runs_to_its_first_token_and_ends_then_passes() -> None:
    aborts, let_go = judge(*THEN_TOLD)
    assert (aborts.verdict, let_go.verdict) == (Verdict.PASS, Verdict.PASS)
    assert aborts.figures["first_token_s"] == 2.05
    assert aborts.figures["noticed_s"] == 0.55
    assert (aborts.figures["prefill_aborted"], aborts.figures["decode_aborted"]) == (0, 1)


def test_kinds_are_fixed_and_only_the_danger_is_required() -> None:
    for looks in (THEN_TOLD, NEVER_TOLD, ()):
        aborts, let_go = judge(*looks)
        assert (aborts.kind, aborts.required) == (Kind.CONFIG, True)
        assert (let_go.kind, let_go.required) == (Kind.AVAILABILITY, False)


@pytest.mark.parametrize(
    ("looks", "sides"),
    [
        ([look(0.5, ABORTED, ABORTED)], "prefill and decode before"),
        ([look(0.5, ABORTED, BUSY), look(21.0, ABORTED, BUSY)], "prefill alone before"),
        ([look(0.5, BUSY, ABORTED), look(2.0, COMPUTED, ABORTED)], "decode alone before"),
        # Prefill was sending what it had computed when it was told.
        ([look(2.0, {**COMPUTED, "aborted": 1}, BUSY)], "prefill alone before"),
    ],
)
def test_a_request_that_is_ended_before_its_first_token_fails(
    looks: list[Glance], sides: str
) -> None:
    aborts, _ = judge(*looks)
    assert aborts.verdict is Verdict.FAIL
    assert sides in aborts.reason


def test_a_failure_needs_no_client_that_leaves_the_pair_itself() -> None:
    unsent = replace(DIRECT_ROW, outcome=Outcome.NOT_EXERCISED, reason="no pair is known")
    ended = look(0.5, ABORTED, ABORTED)
    aborts, _ = judge(ended, rows=(CONTROL_ROW, ASK_ROW, unsent), direct=None)
    assert aborts.verdict is Verdict.FAIL
    aborts, let_go = judge(*NEVER_TOLD, rows=(CONTROL_ROW, ASK_ROW, unsent), direct=None)
    assert (aborts.verdict, let_go.verdict) == (Verdict.NOT_EXERCISED, Verdict.NOT_EXERCISED)
    assert "no pair is known" in aborts.reason


def test_decode_that_nobody_tells_goes_on_for_nobody() -> None:
    aborts, let_go = judge(*NEVER_TOLD)
    assert (aborts.verdict, let_go.verdict) == (Verdict.PASS, Verdict.FAIL)
    assert f"went on to {NEW} new tokens" in let_go.reason


@pytest.mark.parametrize(
    ("prefill", "decode", "said"),
    [
        (ABORTED, BUSY, f"decode still has 1 of its requests in hand and holds {LENGTH:,} tokens"),
        (BUSY, ABORTED, f"prefill still has 1 of its requests in hand and holds {LENGTH:,} tokens"),
        (ABORTED, {**ABORTED, "used_tokens": 64}, "decode still has 0"),
    ],
)
def test_what_is_still_held_when_the_waiting_ends_fails_as_advice(
    prefill: Counts, decode: Counts, said: str
) -> None:
    aborts, let_go = judge(look(1.0, prefill, decode), look(21.0, prefill, decode))
    assert (aborts.verdict, let_go.verdict) == (Verdict.FAIL, Verdict.FAIL)
    assert said in let_go.reason
    assert "21.0 s after" in let_go.reason


def test_what_a_whole_answer_leaves_in_a_cache_is_not_held() -> None:
    cached = {"used_tokens": LENGTH}
    stayed = episode(Stay.WHOLE, look(0.1, {**COMPUTED, **cached}, COMPUTED), new=1)
    _, let_go = judge(look(0.5, {**ABORTED, **cached}, ABORTED), stayed=stayed)
    assert let_go.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("looks", "direct", "said"),
    [
        ([look(21.0, IDLE, IDLE)], DIRECT, "no engine shows the request"),
        # Through after 0.3 s at the latest, where a departure takes up to 0.55 s to be noticed.
        (
            [look(0.3, BUSY, BUSY), look(0.6, COMPUTED, BUSY), look(3.0, COMPUTED, CUT)],
            DIRECT,
            "notice that a client left after 0.55 s",
        ),
        (
            NEVER_TOLD,
            episode(Stay.LEAVES_PAIR, look(0.5, COMPUTED, BUSY), look(4.0, COMPUTED, ABORTED)),
            "prefill did not notice a client that left it directly",
        ),
    ],
)
def test_what_was_not_in_flight_long_enough_is_not_exercised(
    looks: tuple[Glance, ...], direct: Episode, said: str
) -> None:
    aborts, _ = judge(*looks, direct=direct)
    assert aborts.verdict is Verdict.NOT_EXERCISED
    assert said in aborts.reason


def test_an_answer_before_the_client_leaves_exercises_nothing() -> None:
    answered = row(Part.ASK, Duty.EITHER, Outcome.ANSWERED, status=200)
    for check in judge(look(0.1, COMPUTED, ANSWERED), rows=(CONTROL_ROW, answered, DIRECT_ROW)):
        assert check.verdict is Verdict.NOT_EXERCISED
        assert "before its client left" in check.reason


def test_decode_that_ends_at_once_shows_nothing_of_letting_go() -> None:
    soon = (*THEN_TOLD[:3], look(2.2, COMPUTED, ANSWERED))
    aborts, let_go = judge(*soon)
    assert (aborts.verdict, let_go.verdict) == (Verdict.PASS, Verdict.NOT_EXERCISED)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED, Outcome.NO_ANSWER])
def test_without_an_answer_to_a_client_that_stays_nothing_is_told(outcome: Outcome) -> None:
    rows = (row(Part.CONTROL, Duty.ANSWER, outcome, status=400), ASK_ROW, DIRECT_ROW)
    for check in judge(look(0.5, ABORTED, ABORTED), rows=rows):
        assert check.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([look(3.0, {**COMPUTED, "finished": 2}, CUT)], "others used it"),
        ([look(3.0, COMPUTED, {**CUT, "prompt_tokens": LENGTH + 9})], "others used it"),
        ([look(0.5, {"aborted": 2}, ABORTED)], "others used it"),
        # One request cannot both be ended and come to all its tokens.
        ([look(3.0, COMPUTED, {**ANSWERED, "aborted": 1})], "others used it"),
        ([*THEN_TOLD, look(4.0, {**COMPUTED, "aborted": 1}, CUT)], "others used it"),
        # Decode has a token of ours, so what prefill gave up before was not ours.
        (
            [look(1.0, ABORTED, BUSY), look(3.0, {**COMPUTED, "aborted": 1}, CUT)],
            "others used it",
        ),
        ([look(0.5, BUSY, BUSY), look(21.0, BUSY, BUSY)], "did not come to its first token"),
        ([look(1.0, BUSY, BUSY), look(2.0, COMPUTED, ABORTED)], "which came first is not known"),
    ],
)
def test_counters_that_may_be_somebody_elses_tell_nothing(looks: list[Glance], said: str) -> None:
    if said.startswith("did not"):
        looks = [look(0.5, {**BUSY, "prompt_tokens": 1}, BUSY), *looks[1:]]
    aborts, _ = judge(*looks)
    assert aborts.verdict is Verdict.INCONCLUSIVE
    assert said in aborts.reason


def test_others_in_hand_before_make_it_inconclusive() -> None:
    for before in (look(0.0, {"in_hand": 2}, IDLE), look(0.0, IDLE, {"in_hand": 1})):
        aborts, _ = judge(look(0.5, ABORTED, ABORTED), before=before)
        assert aborts.verdict is Verdict.INCONCLUSIVE
        assert "other requests in hand" in aborts.reason


def test_others_in_hand_after_ours_is_over_are_not_ours() -> None:
    _, let_go = judge(look(0.5, ABORTED, {**ABORTED, "in_hand": 1, "used_tokens": 500}))
    assert let_go.verdict is Verdict.INCONCLUSIVE


def test_an_abort_while_nobody_of_ours_left_is_somebody_elses() -> None:
    stayed = episode(Stay.WHOLE, look(0.1, {**COMPUTED, "aborted": 1}, COMPUTED), new=1)
    aborts, _ = judge(look(0.5, ABORTED, ABORTED), stayed=stayed)
    assert aborts.verdict is Verdict.INCONCLUSIVE
    assert "others used it" in aborts.reason


@pytest.mark.parametrize("grown", [IDLE, {**COMPUTED, "prompt_tokens": LENGTH - 1}])
def test_counters_that_do_not_count_an_answered_request_are_not_believed(grown: Counts) -> None:
    stayed = episode(Stay.WHOLE, look(0.1, grown, COMPUTED), new=1)
    aborts, _ = judge(*THEN_TOLD, stayed=stayed)
    assert aborts.verdict is Verdict.INCONCLUSIVE
    assert "its counters do not tell" in aborts.reason


def test_an_engine_that_counts_no_aborts_at_all_cannot_pass() -> None:
    deaf = episode(Stay.LEAVES_PAIR, look(0.5, BUSY, ABORTED), look(21.0, BUSY, ABORTED))
    aborts, _ = judge(*THEN_TOLD, direct=deaf)
    assert aborts.verdict is Verdict.INCONCLUSIVE
    assert "counts no abort even where a client left it directly" in aborts.reason


def test_one_version_does_not_speak_for_another() -> None:
    other = count(Role.DECODE, IDLE, node="decode-2", version="0.5.22")

    def with_other(one: Glance) -> Glance:
        return replace(one, nodes=(*one.nodes, other))

    def widened(one: Episode) -> Episode:
        return replace(one, before=with_other(one.before), after=tuple(map(with_other, one.after)))

    asked = widened(episode(Stay.LEAVES, *THEN_TOLD))
    aborts, _ = judge(
        *asked.after, stayed=widened(STAYED), direct=widened(DIRECT), before=asked.before
    )
    assert aborts.verdict is Verdict.INCONCLUSIVE
    assert "several versions" in aborts.reason


METRICS = """\
sglang:num_requests_total{engine_type="prefill"} 11
sglang:prompt_tokens_total{engine_type="prefill"} 6000
sglang:generation_tokens_total{engine_type="prefill"} 101
"""


def node_with(metrics: Answer, role: Role) -> Survey:
    capture = NodeCapture(
        name=f"{role}-1",
        engine="sglang",
        role=role,
        taken_at=TAKEN_AT,
        responses={
            "GET /server_info": Answer(
                status=200,
                json={
                    "version": "0.5.23",
                    "disaggregation_mode": str(role),
                    "max_req_input_len": 16_378,
                    "max_total_num_tokens": 20_480,
                },
            ),
            "GET /metrics": metrics,
        },
    )
    return Survey(readings=(ENGINES.get("sglang").read(capture),), listed=())


@pytest.mark.parametrize(
    "metrics",
    [
        Answer(status=0, error="connection refused"),
        Answer(status=0, error="no answer within 10 s"),
        Answer(status=503, text="starting"),
        Answer(status=200, text=METRICS[:30]),
    ],
    ids=["refused", "timeout", "status", "truncated"],
)
def test_bad_answers_of_the_counters_are_inconclusive(metrics: Answer) -> None:
    glance = glance_at(node_with(metrics, Role.PREFILL), since_s=0.5, until_s=0.6)
    assert [(one.finished, one.figure("aborted")) for one in glance.nodes] == [(None, None)]
    blind = replace(glance, nodes=(*glance.nodes, count(Role.DECODE, ABORTED)))
    for check in judge(blind):
        assert check.verdict is Verdict.INCONCLUSIVE
        assert "cannot be read" in check.reason


def test_a_counter_that_never_counted_stands_at_nothing_on_a_page_that_is_there() -> None:
    (node,) = glance_at(node_with(Answer(status=200, text=METRICS), Role.PREFILL)).nodes
    assert (node.aborted, node.figure("aborted"), node.finished) == (None, 0, 11)


def test_only_a_split_pair_has_two_engines_to_tell() -> None:
    def alone(one: Glance) -> Glance:
        return replace(one, nodes=one.of_role(Role.PREFILL))

    asked = [alone(one) for one in THEN_TOLD]
    stayed = replace(STAYED, after=tuple(map(alone, STAYED.after)))
    aborts, _ = judge(*asked, stayed=stayed)
    assert "there is no decode node" in aborts.reason
    assert aborts.verdict is not Verdict.PASS


def test_the_requests_are_as_long_as_they_may_cost_and_stay_in_the_limits() -> None:
    plan = PLANS.get("proxy_aborts")
    for allowance in (1_024, 100_000, 10**9):
        sendings = plan.sendings(scene(allowance=allowance))
        assert [one.stay for one in sendings] == [Stay.WHOLE, Stay.LEAVES, Stay.LEAVES_PAIR]
        cost = sum(one.length + one.max_new_tokens for one in sendings)
        assert 0.9 * min(allowance, 3 * 10_000) < cost <= allowance
        longest = max(one.length + one.max_new_tokens for one in sendings)
        assert longest <= scene().last_admitted
        assert not any(scene().hang_at(one.length, one.max_new_tokens) for one in sendings)


async def test_a_pair_without_a_router_is_not_asked() -> None:
    pair = FakePair(version="0.5.23")
    result = await run_round(make_order(pair, plan="proxy_aborts", way=Way.PAIR))
    assert [one.verdict for one in result.checks] == [Verdict.NOT_EXERCISED] * 2
    assert "--via router" in result.checks[0].reason
    assert not pair.asked


@pytest.mark.parametrize("version", ["0.5.19", "0.5.23"])
async def test_in_rotation_nobody_leaves_where_pages_are_not_surely_held(version: str) -> None:
    # This pair shows no transfer back end, so what it does with pages is not known.
    pair = FakePair(version=version)
    result = await run_round(make_order(pair, plan="proxy_aborts"))
    assert {one.verdict for one in result.checks} == {Verdict.NOT_EXERCISED}
    assert "deferred_release does not pass there" in result.checks[0].reason
    assert not pair.asked


async def test_a_named_person_may_want_it_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departing, "SETTLE_S", 0.1)
    pair = FakePair(version="0.5.23")
    accepted = Acceptance(by="Ada", reason="rehearsal")
    order = make_order(pair, plan="proxy_aborts", acceptance=accepted)
    result = await run_round(order)
    # This pair counts no tokens, so its answer is all that comes of it.
    assert len(pair.asked) >= 1
    assert {one.verdict for one in result.checks} == {Verdict.INCONCLUSIVE}


def saved(*looks: Glance, verdict: str = "pass", **over: object) -> dict[str, Any]:
    """Answer a round as it is published and read from a file."""
    document = {
        "plan": "proxy_aborts",
        "target": "router",
        "verdict": verdict,
        "rows": [row_document(one) for one in ROWS],
        "departures": departures_document([STAYED, episode(Stay.LEAVES, *looks), DIRECT]),
        **over,
    }
    return dict(json.loads(json.dumps(document)))


@pytest.mark.parametrize(
    ("looks", "verdict"),
    [
        (THEN_TOLD, "pass"),
        (NEVER_TOLD, "pass"),
        ((look(0.5, ABORTED, ABORTED),), "fail"),
        ((look(0.5, BUSY, BUSY), look(21.0, BUSY, BUSY)), "not_exercised"),
    ],
)
def test_a_saved_round_comes_to_what_it_came_to_when_it_was_made(
    looks: tuple[Glance, ...], verdict: str
) -> None:
    assert tuple(judge_saved([saved(*looks, verdict=verdict)])) == judge(*looks)


@pytest.mark.parametrize("said", ["inconclusive", "fail", None, 1])
def test_a_saved_round_does_not_pass_where_it_did_not_when_it_was_made(said: Any) -> None:  # noqa: ANN401
    aborts, _ = judge_saved([saved(*THEN_TOLD, verdict=said)])
    assert aborts.verdict is Verdict.INCONCLUSIVE


def test_saved_rounds_of_other_plans_are_left_alone() -> None:
    assert not [*judge_saved([{"plan": "boundary", "rows": []}, "proxy_aborts", None, 7])]


@pytest.mark.parametrize(
    "over",
    [
        {"departures": None},
        {"departures": [7]},
        {"rows": "none"},
        {"target": None},
        {"departures": [{"stay": "leaves"}]},
    ],
)
def test_a_saved_round_of_another_shape_is_inconclusive(over: dict[str, Any]) -> None:
    checks = [*judge_saved([saved(*THEN_TOLD, **over)])]
    assert [one.verdict for one in checks] == [Verdict.INCONCLUSIVE] * 2
    assert "cannot be read" in checks[0].reason


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@given(path=st.integers(min_value=0), value=VALUES)
def test_no_value_in_a_saved_round_makes_it_raise_or_turns_a_fail_into_a_pass(
    path: int, value: object
) -> None:
    document = saved(look(0.5, ABORTED, ABORTED), verdict="fail")
    places = [*_places(document)]
    holder, key = places[path % len(places)]
    holder[key] = value
    for check in judge_saved([document]):
        assert not (check.required and check.verdict is Verdict.PASS)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


@dataclass(kw_only=True)
class Engines:
    """Both engines as counters in memory; a client that leaves is counted as an abort at once."""

    label: str = "router"
    grown: dict[str, int] = field(default_factory=dict)
    left: int = 0

    async def ask(
        self,
        *,
        token_ids: Sequence[int],
        max_new_tokens: int,
        tenant_key: str,
        timeout_s: float,
        **_more: object,
    ) -> Completion:
        assert tenant_key == "key-b"
        assert timeout_s > 0
        try:
            # The first prompt, whose client stays, takes long enough to be left half-way.
            await (asyncio.sleep(0.25) if max_new_tokens == 1 else asyncio.Event().wait())
        except asyncio.CancelledError:
            self.left += 1
            self.grow(num_aborted_requests_total=1)
            raise
        size = len(token_ids)
        self.grow(num_requests_total=1, generation_tokens_total=1, prompt_tokens_total=size)
        return Completion(status=200, text="x", prompt_tokens=size, seconds=0.25)

    def grow(self, **counters: int) -> None:
        for name, value in counters.items():
            self.grown[name] = self.grown.get(name, 0) + value

    async def survey(self) -> Survey:
        shared: dict[str, Any] = {
            "transfer_backend": "mooncake",
            "reserve": 512,
            "counters": {f"sglang:{name}": float(value) for name, value in self.grown.items()},
            "load": Load(
                running=0, waiting=0, queues={"waiting": 0}, used_tokens=0, free_tokens=20_480
            ),
        }
        workers = (
            Worker(worker_id="1", url=PREFILL_URL, role=Role.PREFILL, is_healthy=True),
            Worker(worker_id="2", url=DECODE_URL, role=Role.DECODE, is_healthy=True),
        )
        readings = (prefill(url=PREFILL_URL, **shared), decode(url=DECODE_URL, **shared))
        return Survey(readings=readings, listed=workers)


def order_for(engines: Engines, **over: Any) -> RoundOrder:  # noqa: ANN401 - as above
    changes: dict[str, Any] = {"speaker": engines, "surveyor": engines, "direct": engines, **over}
    return replace(make_order(FakePair(), plan="proxy_aborts"), **changes)


async def test_the_connection_of_a_client_that_leaves_is_closed() -> None:
    engines = Engines()
    result = await run_round(order_for(engines))
    assert [one.outcome for one in result.rows] == [Outcome.ANSWERED, Outcome.LEFT, Outcome.LEFT]
    assert engines.left == 2
    assert result.checks[0].verdict is Verdict.FAIL
    # A quarter of what the client that stayed had to wait.
    assert 0.05 < result.episodes[1].seconds < 0.2


async def test_without_a_pair_to_speak_to_the_router_can_still_fail() -> None:
    engines = Engines()
    result = await run_round(order_for(engines, direct=None))
    assert engines.left == 1
    assert result.rows[-1].outcome is Outcome.NOT_EXERCISED
    assert result.checks[0].verdict is Verdict.FAIL


async def test_the_kill_switch_stops_before_anybody_leaves() -> None:
    engines = Engines()
    result = await run_round(order_for(engines), Recorder(stops_after=1))
    assert engines.left == 0
    assert {one.verdict for one in result.checks} == {Verdict.NOT_EXERCISED}
    assert "somebody stopped the round" in result.checks[0].reason
