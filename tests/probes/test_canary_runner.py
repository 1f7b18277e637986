"""A round as it runs: order, kill switch, drift, what is heard, what is not sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from common.verdicts import Verdict
from fleet.contract import Completion, NodeUnreachable
from fleet.reading import Reading
from fleet.speakers import DECODE_SILENT
from probes.canary.patience import timeout_of
from probes.canary.results import RoundResult
from probes.canary.rounds import (
    Acceptance,
    Cause,
    Duty,
    Echo,
    Outcome,
    Part,
    Sending,
    Tenant,
    Way,
)
from probes.canary.runner import run_round
from probes.canary.sight import Asked, look_at
from probes.canary.survey import Survey
from probes.markers import Marker, MarkerIndex, MarkerKey
from tests.probes.canary_fakes import FakePair, FakeSurveyor, Recorder, make_order

ACCEPTED = Acceptance(by="Ada", reason="rehearsal")
SEPTEMBER: dict[str, Any] = {"prefill_pool": 10_624, "decode_pool": 20_480}


def fixed() -> FakePair:
    return FakePair(version="0.5.22", is_guarded=True)


def verdicts(result: RoundResult) -> dict[str, Verdict]:
    return {one.check.removeprefix("boundary."): one.verdict for one in result.checks}


def restart(reading: Reading) -> Reading:
    return replace(reading, started="2026-11-29T23:59:59Z")


def with_readings(change: Callable[[Reading], Reading]) -> Callable[[Survey], Survey]:
    return lambda survey: replace(survey, readings=tuple(map(change, survey.readings)))


async def test_the_pool_is_filled_by_a_and_only_then_asked_by_b() -> None:
    pair = FakePair(**SEPTEMBER)
    result = await run_round(make_order(pair, acceptance=ACCEPTED))
    fills = [row.position for row in result.rows if row.part is Part.FILL]
    asks = [row.position for row in result.rows if row.part is Part.ASK]
    assert max(fills) < min(asks)
    assert sum(row.length for row in result.rows if row.part is Part.FILL) >= pair.decode_pool
    assert {row.tenant for row in result.rows if row.part is Part.FILL} == {"tenant-a"}
    assert [key for key, *_ in pair.asked] == [
        "key-a" if row.part is Part.FILL else "key-b" for row in result.rows if row.is_sent
    ]


async def test_the_observer_hears_each_answer_once_and_progress_to_the_end() -> None:
    recorder = Recorder()
    result = await run_round(make_order(fixed()), recorder)
    assert tuple(recorder.rows) == result.rows
    assert all(recorder.texts)
    cost, *steps = recorder.steps
    assert f"{result.estimate.tokens:,} tokens" in cost.label
    assert [one.done for one in steps] == [*range(len(result.rows) + 1)]
    assert recorder.steps[-1].done == recorder.steps[-1].total


async def test_the_kill_switch_ends_a_round_and_is_no_pass() -> None:
    pair = fixed()
    result = await run_round(make_order(pair), Recorder(stops_after=3))
    assert len(pair.asked) == 3
    assert sum(row.is_sent for row in result.rows) == 3
    assert Verdict.PASS not in verdicts(result).values()


async def test_a_restart_in_the_middle_makes_the_round_inconclusive() -> None:
    pair = fixed()
    surveyor = FakeSurveyor(pair=pair, change=with_readings(restart))
    result = await run_round(make_order(pair, surveyor=surveyor))
    assert set(verdicts(result).values()) == {Verdict.INCONCLUSIVE}


async def test_a_changed_worker_list_makes_the_round_inconclusive() -> None:
    pair = fixed()
    surveyor = FakeSurveyor(pair=pair, change=lambda survey: replace(survey, listed=()))
    result = await run_round(make_order(pair, surveyor=surveyor))
    assert set(verdicts(result).values()) == {Verdict.INCONCLUSIVE}


async def test_a_foreign_marker_stays_a_leak_whoever_restarts() -> None:
    pair = FakePair(**SEPTEMBER)
    surveyor = FakeSurveyor(pair=pair, change=with_readings(restart))
    result = await run_round(make_order(pair, surveyor=surveyor, acceptance=ACCEPTED))
    found = verdicts(result)
    assert found.pop("foreign_marker") is Verdict.FAIL
    assert set(found.values()) == {Verdict.INCONCLUSIVE}


async def test_nodes_that_cannot_be_read_again_leave_no_pass() -> None:
    def mute(reading: Reading) -> Reading:
        return replace(reading, problem="it did not answer")

    pair = fixed()
    surveyor = FakeSurveyor(pair=pair, change=with_readings(mute))
    result = await run_round(make_order(pair, surveyor=surveyor))
    assert set(verdicts(result).values()) == {Verdict.INCONCLUSIVE}


async def test_without_a_grant_nothing_is_sent_and_the_cost_is_named() -> None:
    pair = fixed()
    refused = await run_round(make_order(pair, grant_tokens=None))
    needed = refused.estimate.tokens
    assert pair.asked == []
    assert f"--budget-tokens {needed}" in refused.checks[0].reason
    granted = await run_round(make_order(pair, grant_tokens=needed))
    assert granted.spent.tokens <= needed
    assert granted.judgement().verdict is Verdict.PASS


async def test_equal_keys_mark_the_round() -> None:
    same = Tenant(number=2, name="tenant-b", key="key-a")
    result = await run_round(make_order(fixed(), tenant_b=same))
    assert result.is_same_key
    assert result.document()["same_key"] is True
    assert result.judgement().verdict is Verdict.PASS


async def test_a_node_that_does_not_tokenize_is_inconclusive() -> None:
    async def refuse(text: str) -> Sequence[int]:
        raise NodeUnreachable(f"prefill-1 refused the connection with {len(text)} letters")

    pair = fixed()
    result = await run_round(make_order(pair, tokenizer=refuse))
    assert pair.asked == []
    assert set(verdicts(result).values()) == {Verdict.INCONCLUSIVE}


async def test_by_pair_client_only_the_pair_counts() -> None:
    pair = FakePair(**SEPTEMBER, label="pair prefill-1/decode-1")
    surveyor = FakeSurveyor(pair=pair, is_listed=False)
    urls = tuple(reading.url for reading in pair.readings())
    order = make_order(
        pair, surveyor=surveyor, way=Way.PAIR, reached=urls, grant_tokens=None, acceptance=ACCEPTED
    )
    result = await run_round(order)
    assert result.is_cordoned
    assert result.acceptance is None, "out of rotation nobody had to accept anything"
    assert result.judgement().verdict is Verdict.FAIL


async def test_a_request_that_times_out_ends_the_round() -> None:
    pair = FakePair(prefill_pool=10_624, version="0.5.22", hangs_over_limit=True)
    result = await run_round(make_order(pair, acceptance=ACCEPTED))
    silent = [row for row in result.rows if row.outcome is Outcome.NO_ANSWER]
    assert len(silent) == 1
    assert not any(row.is_sent for row in result.rows if row.position > silent[0].position)


def sending(**over: object) -> Sending:
    parts: dict[str, object] = {
        "part": Part.ASK,
        "length": 100,
        "max_new_tokens": 64,
        "duty": Duty.ANSWER,
        "purpose": "test",
    }
    return Sending(**(parts | over))  # type: ignore[arg-type]


TENANT = Tenant(number=2, name="tenant-b", key="key-b")
KEY = MarkerKey(b"secret")
NONCE = KEY.write(Marker(tenant=2, request=9, page=1))


@pytest.mark.parametrize(
    ("completion", "outcome", "cause"),
    [
        (Completion(status=200, text="x", prompt_tokens=100), Outcome.ANSWERED, None),
        (Completion(status=200, finish="abort"), Outcome.REFUSED, Cause.OTHER),
        (
            Completion(
                status=400,
                text="Prefill server error (400 Bad Request): Input length (100 tokens) exceeds "
                "the maximum allowed length (90 tokens).",
            ),
            Outcome.REFUSED,
            Cause.LENGTH,
        ),
        (
            Completion(
                status=400,
                text="Requested token count exceeds the model's maximum context length of 4096 "
                "tokens. You requested a total of 4098 tokens",
            ),
            Outcome.REFUSED,
            Cause.TOKEN_COUNT,
        ),
        (Completion(status=200, finish="length", completion_tokens=0), Outcome.CUT_SHORT, None),
        (Completion(status=500, text="boom"), Outcome.FAILED, None),
        (Completion(status=429, text="queue is full"), Outcome.FAILED, None),
        (Completion(status=401), Outcome.UNAUTHORISED, None),
        (Completion(error="time-out"), Outcome.NO_ANSWER, None),
        (
            Completion(status=400, error=f"prefill-1: too long; {DECODE_SILENT}"),
            Outcome.NO_ANSWER,
            None,
        ),
    ],
)
def test_what_comes_back_has_one_outcome(
    completion: Completion, outcome: Outcome, cause: Cause | None
) -> None:
    asked = Asked(position=0, sending=sending(), tenant=TENANT, request=9, nonce=NONCE)
    row = look_at(asked, completion, index=MarkerIndex(KEY), names={})
    assert (row.outcome, row.cause) == (outcome, cause)


@pytest.mark.parametrize(
    ("text", "new", "echo"),
    [
        (NONCE, 64, Echo.WHOLE),
        (f"Sure: {NONCE.lower()} and on", 64, Echo.WHOLE),
        (NONCE[:5], 5, Echo.BEGINS),
        (NONCE[4:9], 5, Echo.BEGINS),
        (f"\n{NONCE[:6].lower()}", 6, Echo.BEGINS),
        ("QQQQQ", 5, Echo.MISSING),
        ("x", 1, Echo.NOT_LOOKED_FOR),
        ("", 64, Echo.MISSING),
    ],
)
def test_an_echo_is_whole_begun_missing_or_not_looked_for(text: str, new: int, echo: Echo) -> None:
    asked = Asked(
        position=0, sending=sending(max_new_tokens=new), tenant=TENANT, request=9, nonce=NONCE
    )
    answer = Completion(status=200, text=text, prompt_tokens=100, completion_tokens=new)
    assert look_at(asked, answer, index=MarkerIndex(KEY), names={}).echo is echo


def test_a_code_that_the_model_slips_in_shows_that_the_prompt_was_read() -> None:
    """Small models do: SmolLM2-135M goes on from the prompt's end and swaps a letter or two."""
    index = MarkerIndex(KEY)
    nonce = index.add(Marker(tenant=2, request=9, page=0))
    asked = Asked(position=0, sending=sending(), tenant=TENANT, request=9, nonce=nonce)
    slips = {0: "Z", 9: "0", 15: "Q"}
    slipped = "".join(slips.get(at, letter) for at, letter in enumerate(nonce))
    for text, echo in ((nonce[4:], Echo.WHOLE), (slipped, Echo.WHOLE), (nonce[:6], Echo.MISSING)):
        answer = Completion(status=200, text=f"so: {text}", completion_tokens=64)
        assert look_at(asked, answer, index=index, names={}).echo is echo
    other = replace(asked, request=8)
    answer = Completion(status=200, text=slipped, completion_tokens=64)
    assert look_at(other, answer, index=index, names={}).echo is Echo.MISSING


def test_another_request_of_the_same_tenant_is_foreign_too() -> None:
    index = MarkerIndex(KEY)
    other = index.add(Marker(tenant=2, request=8, page=3))
    asked = Asked(position=0, sending=sending(), tenant=TENANT, request=9, nonce=NONCE)
    answer = Completion(status=200, text=other, prompt_tokens=100, completion_tokens=64)
    (seen,) = look_at(asked, answer, index=index, names={2: "tenant-b"}).foreign
    assert (seen.tenant, seen.request, seen.page) == ("tenant-b", "000008", 3)


def test_a_refusal_is_not_waited_for_as_long_as_an_answer() -> None:
    answer, refusal = sending(length=900_000), sending(length=900_000, duty=Duty.REFUSAL)
    assert timeout_of(refusal) < timeout_of(answer)
