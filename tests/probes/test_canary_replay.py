"""A suspicion is sent again by itself; and a saved round is judged as it was when it was made."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from common.verdicts import Verdict
from fleet.contract import Completion
from probes.canary.contract import RoundOrder
from probes.canary.results import RoundResult, canary_document
from probes.canary.rounds import Acceptance, Part, Way
from probes.canary.runner import run_round
from probes.canary.saved import judge_saved
from probes.judgement import Check
from tests.probes.canary_fakes import FakePair, FakeSurveyor, make_order

ACCEPTED = Acceptance(by="Ada", reason="rehearsal on an idle cluster")
#: 12 characters are 60 bits, and 23 or so go for the search: a suspicion, no alarm.
FRAGMENT = slice(6, 18)


class Whisperer(FakePair):
    """Says a fragment of tenant A's latest prompt in some answers to tenant B."""

    def __init__(self, *, times: int, per_answer: int = 1) -> None:
        super().__init__(version="0.5.22", is_guarded=True)
        self._left, self._each = times, per_answer
        self._filled = ""

    async def ask(self, **over: object) -> Completion:
        came = await super().ask(**over)  # type: ignore[arg-type]
        if over["tenant_key"] == "key-a":
            self._filled = self.texts[-1]
        elif self._filled and came.status == 200 and self._left:
            self._left -= 1
            fragment = self._filled[1:25][FRAGMENT]
            text = f"{came.text} {fragment}"
            return Completion(
                status=200,
                text=text,
                answer=text,
                prompt_tokens=came.prompt_tokens,
                completion_tokens=came.completion_tokens,
                finish="length",
                seconds=0.05,
            )
        return came


def leak_of(result: RoundResult) -> Check:
    return next(one for one in result.checks if one.check.endswith(".foreign_marker"))


async def test_a_round_without_a_suspicion_is_sent_once() -> None:
    pair = Whisperer(times=0)
    result = await run_round(make_order(pair))
    assert len(result.rows) == result.estimate.requests
    assert result.judgement().verdict is Verdict.PASS


async def test_one_suspicion_is_sent_again_with_new_markers_and_stays_a_doubt() -> None:
    pair = Whisperer(times=1)
    result = await run_round(make_order(pair))
    half = result.estimate.requests
    assert len(result.rows) == 2 * half
    requests = [row.request for row in result.rows]
    assert len(set(requests)) == 2 * half
    assert [row.length for row in result.rows[:half]] == [row.length for row in result.rows[half:]]
    assert leak_of(result).verdict is Verdict.INCONCLUSIVE
    assert "pieces" in leak_of(result).reason


@pytest.mark.parametrize("plan", ["boundary", "reference", "churn"])
async def test_what_is_sent_again_shares_nothing_with_before(plan: str) -> None:
    pair = Whisperer(times=1)
    result = await run_round(make_order(pair, plan=plan))
    half = sum(row.is_sent for row in result.rows) // 2
    # Behind the first token, which all of them begin with.
    begins = [text[1:50] for text in pair.texts]
    assert len(begins) == 2 * half
    assert not {*begins[:half]} & {*begins[half:]}
    scripts = {row.script for row in result.rows if row.script}
    assert sum(name.endswith(" again") for name in scripts) * 2 == len(scripts)


async def test_two_independent_sightings_are_a_leak() -> None:
    result = await run_round(make_order(Whisperer(times=40)))
    leak = leak_of(result)
    assert leak.verdict is Verdict.FAIL
    assert leak.figures["tenant"] == "tenant-a"
    fills = {row.request for row in result.rows if row.part is Part.FILL}
    assert leak.figures["request"] in fills
    assert "two independent sightings" in leak.reason
    assert not any(row.foreign for row in result.rows), "none was enough by itself"


async def test_a_suspicion_is_not_sent_again_beyond_the_budget() -> None:
    cost = (await run_round(make_order(Whisperer(times=0)))).estimate.tokens
    result = await run_round(make_order(Whisperer(times=1), grant_tokens=2 * cost - 1))
    assert len(result.rows) == result.estimate.requests
    assert leak_of(result).verdict is Verdict.INCONCLUSIVE


async def test_a_clear_leak_is_not_sent_again() -> None:
    pair = FakePair(prefill_pool=10_624, decode_pool=20_480)
    result = await run_round(make_order(pair, acceptance=ACCEPTED))
    assert leak_of(result).verdict is Verdict.FAIL
    assert not any("again" in row.purpose for row in result.rows)


def sound(plan: str) -> RoundOrder:
    return make_order(FakePair(version="0.5.22", is_guarded=True), plan=plan)


def leaking(plan: str) -> RoundOrder:
    pair = FakePair(prefill_pool=10_624, decode_pool=20_480)
    return make_order(pair, plan=plan, acceptance=ACCEPTED)


def garbled(plan: str) -> RoundOrder:
    pair = FakePair(prefill_pool=10_624, decode_pool=20_480, is_garbled=True)
    return make_order(pair, plan=plan, acceptance=ACCEPTED)


def equal(plan: str) -> RoundOrder:
    return make_order(FakePair(prefill_pool=10_624, decode_pool=10_624), plan=plan)


def hanging(plan: str) -> RoundOrder:
    pair = FakePair(prefill_pool=10_624, version="0.5.22", is_guarded=True)
    return make_order(pair, plan=plan, acceptance=ACCEPTED)


def mute(plan: str) -> RoundOrder:
    return make_order(FakePair(version="0.5.22", is_guarded=True, is_mute=True), plan=plan)


def suspicious(plan: str) -> RoundOrder:
    return make_order(Whisperer(times=1), plan=plan)


def confirmed(plan: str) -> RoundOrder:
    return make_order(Whisperer(times=40), plan=plan)


def cordoned(plan: str) -> RoundOrder:
    pair = FakePair(prefill_pool=10_624, decode_pool=20_480, label="pair prefill-1/decode-1")
    urls = tuple(reading.url for reading in pair.readings())
    surveyor = FakeSurveyor(pair=pair, is_listed=False)
    return make_order(pair, plan=plan, surveyor=surveyor, way=Way.PAIR, reached=urls)


def document_verdicts(saved: dict[str, Any]) -> dict[str, str]:
    (document,) = saved["rounds"]
    return dict(document["checks"])


@pytest.mark.parametrize("plan", ["boundary", "reference", "churn"])
@pytest.mark.parametrize(
    "ordered",
    [sound, leaking, garbled, equal, hanging, mute, suspicious, confirmed, cordoned],
)
async def test_a_saved_round_is_judged_as_it_was(
    ordered: Callable[[str], RoundOrder], plan: str
) -> None:
    result = await run_round(ordered(plan))
    assert result.rows
    saved = json.loads(json.dumps(canary_document([result]), allow_nan=False))
    again = {one.check: one for one in judge_saved(saved["rounds"]) if isinstance(one, Check)}
    said = {one.check: one for one in result.checks}
    assert document_verdicts(saved) == {name: one.verdict for name, one in said.items()}
    assert {name: one.verdict for name, one in again.items()} == {
        name: one.verdict for name, one in said.items()
    }
    assert {name: one.kind for name, one in again.items()} == {
        name: one.kind for name, one in said.items()
    }
    assert {name: one.required for name, one in again.items()} == {
        name: one.required for name, one in said.items()
    }
    assert {name: one.target for name, one in again.items()} == {
        name: one.target for name, one in said.items()
    }


async def test_a_published_round_holds_its_scene_and_every_field_of_its_rows() -> None:
    result = await run_round(leaking("boundary"))
    document = json.loads(json.dumps(result.document()))
    assert document["scene"]["first_refused"] == 10_618
    assert document["scene"]["workers"] == ["prefill-1/decode-1"]
    marker = next(one for row in document["rows"] for one in row["markers"] if not one["is_own"])
    assert marker["net_bits"] >= 70
    assert (marker["view"], marker["is_suspect"]) == ("plain", False)
    row = next(row for row in document["rows"] if row["outcome"] == "answered")
    assert len(row["said_sha256"]) == len(row["opening_sha256"]) == 64
    assert row["worker"] == "prefill-1/decode-1"
    assert document["cost"]["estimated_seconds"] > 0
