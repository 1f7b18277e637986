"""The plan boundary and its oracles, against a small pair in memory and by hand-made rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.verdicts import Verdict
from fleet.reading import Reading
from probes.canary.results import RoundResult, canary_document, judge_rounds
from probes.canary.rounds import Acceptance, Outcome, Part, Row
from probes.canary.runner import run_round
from probes.judgement import Check, Kind
from tests.probes.canary_fakes import FakePair, FakeSurveyor, Recorder, make_order

ACCEPTED = Acceptance(by="Ada", reason="rehearsal on an idle cluster")

SEPTEMBER: dict[str, Any] = {"prefill_pool": 10_624, "decode_pool": 20_480}
#: Figures of no scenario: page sizes, pools, contexts. Decode keeps room for its own last length.
CLUSTERS: list[dict[str, Any]] = [
    SEPTEMBER,
    {"prefill_pool": 1_024, "decode_pool": 5_000, "context": 4_096, "page_size": 1, "reserve": 16},
    {"prefill_pool": 3_200, "decode_pool": 9_600, "context": 7_777, "page_size": 16},
    {"prefill_pool": 2_560, "decode_pool": 6_400, "context": 9_001, "page_size": 128, "reserve": 3},
]


def check_of(result: RoundResult, oracle: str) -> Check:
    return next(one for one in result.checks if one.check == f"boundary.{oracle}")


def asked_at(result: RoundResult, length: int) -> list[Row]:
    return [row for row in result.rows if row.part is Part.ASK and row.length == length]


def verdicts(result: RoundResult) -> dict[str, Verdict]:
    return {one.check.removeprefix("boundary."): one.verdict for one in result.checks}


@pytest.mark.parametrize("figures", CLUSTERS)
async def test_a_leaking_pair_is_caught_with_tenant_request_and_page(
    figures: dict[str, Any],
) -> None:
    pair = FakePair(**figures)
    result = await run_round(make_order(pair, acceptance=ACCEPTED))
    leak = check_of(result, "foreign_marker")
    assert (leak.verdict, leak.kind) == (Verdict.FAIL, Kind.LEAK)
    fills = [row for row in result.rows if row.part is Part.FILL]
    assert leak.figures["tenant"] == "tenant-a"
    assert leak.figures["request"] in {row.request for row in fills}
    assert 0 <= int(str(leak.figures["page"])) <= fills[0].length // pair.page_size
    assert leak.figures["first_refused"] == pair.prefill_limit
    assert int(str(leak.figures["length"])) >= pair.prefill_limit
    assert check_of(result, "refusal").verdict is Verdict.FAIL
    assert result.judgement().verdict is Verdict.FAIL


@pytest.mark.parametrize("figures", CLUSTERS)
async def test_garbage_fires_nonce_and_refusal_alone(figures: dict[str, Any]) -> None:
    result = await run_round(make_order(FakePair(**figures, is_garbled=True), acceptance=ACCEPTED))
    found = verdicts(result)
    assert found["own_nonce"] is Verdict.FAIL
    assert found["refusal"] is Verdict.FAIL
    assert found["foreign_marker"] is Verdict.INCONCLUSIVE
    assert check_of(result, "own_nonce").kind is Kind.CORRUPTION
    assert check_of(result, "refusal").kind is Kind.OVER_LIMIT_SERVED


@pytest.mark.parametrize("is_garbled", [False, True])
@pytest.mark.parametrize(
    "figures",
    [
        {"prefill_pool": 20_480, "decode_pool": 20_480},
        {"prefill_pool": 4_400, "decode_pool": 4_400, "context": 3_777, "page_size": 16},
        {"prefill_pool": 9_000, "decode_pool": 9_000, "context": 5_001, "page_size": 1},
    ],
)
async def test_a_healthy_pair_passes(figures: dict[str, Any], *, is_garbled: bool) -> None:
    pair = FakePair(**figures, version="0.5.22", is_guarded=True, is_garbled=is_garbled)
    result = await run_round(make_order(pair))
    assert set(verdicts(result).values()) == {Verdict.PASS}
    refused = asked_at(result, pair.prefill_limit)
    assert {(row.status, row.max_new_tokens) for row in refused} == {(400, 1)}
    assert {row.is_streamed for row in refused} == {False, True}
    assert "cannot exclude any leak rate" in check_of(result, "foreign_marker").reason


async def test_every_limit_that_was_read_is_asked() -> None:
    pair = FakePair(prefill_pool=4_400, decode_pool=9_000, context=12_000, reserve=3)
    result = await run_round(make_order(pair, acceptance=ACCEPTED))
    asked = {row.length for row in result.rows if row.is_sent and row.part is Part.ASK}
    first, last = pair.prefill_limit, pair.decode_limit - 1
    assert {first, last, last + 1, 9_000, 9_001, 11_999} <= asked
    assert any(first < length < last for length in asked), "one between, to compare with"
    page = pair.page_size
    assert {3 * page - 1, 3 * page, 3 * page + 1} <= asked
    controls = {row.length for row in result.rows if row.part is Part.CONTROL}
    assert 12_000 in controls
    over = [row for row in result.rows if row.length >= first]
    assert {row.is_streamed for row in over} == {False, True}


async def test_where_prefill_admits_more_both_limits_are_asked() -> None:
    pair = FakePair(prefill_pool=9_000, decode_pool=4_400, context=12_000, reserve=3)
    result = await run_round(make_order(pair, acceptance=ACCEPTED))
    asked = {row.length: row.outcome for row in result.rows if row.part is Part.ASK}
    assert asked[pair.decode_limit] is Outcome.REFUSED
    assert asked[pair.prefill_limit] is Outcome.REFUSED


async def test_the_end_of_a_chunk_that_was_read_is_asked() -> None:
    pair = FakePair(version="0.5.22", is_guarded=True)
    surveyor = FakeSurveyor(pair=pair)
    plain = pair.readings

    def chunked() -> tuple[Reading, ...]:
        first, *others = plain()
        return replace(first, flags={**first.flags, "chunked_prefill_size": "2048"}), *others

    pair.readings = chunked  # type: ignore[method-assign]
    result = await run_round(make_order(pair, surveyor=surveyor))
    asked = {row.length for row in result.rows if row.is_sent}
    assert {2_047, 2_048, 2_049} <= asked
    assert result.judgement().verdict is Verdict.PASS


@pytest.mark.parametrize("figures", CLUSTERS)
async def test_answers_over_the_limit_that_begin_alike_are_seen(figures: dict[str, Any]) -> None:
    pair = FakePair(**figures, is_garbled=True)
    result = await run_round(make_order(pair, acceptance=ACCEPTED))
    check = check_of(result, "answers_alike")
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.OVER_LIMIT_SERVED)


async def test_a_count_of_other_tokens_is_corruption() -> None:
    pair = FakePair(version="0.5.22", is_guarded=True, miscounts_from=1_000)
    check = check_of(await run_round(make_order(pair)), "token_counts")
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.CORRUPTION)


async def test_equal_pools_leave_l_unasked_and_refuse_f() -> None:
    pair = FakePair(prefill_pool=10_624, decode_pool=10_624)
    result = await run_round(make_order(pair))
    (last,) = asked_at(result, 10_617)
    assert last.outcome is Outcome.NOT_EXERCISED
    assert "hang band" in last.reason
    refused = asked_at(result, 10_618)
    assert {(row.outcome, row.status) for row in refused} == {(Outcome.REFUSED, 400)}
    assert result.judgement().verdict is Verdict.NOT_EXERCISED
    assert check_of(result, "refusal").verdict is Verdict.PASS


async def test_nothing_in_the_hang_band_is_ever_sent() -> None:
    pair = FakePair(prefill_pool=10_624, decode_pool=10_624)
    await run_round(make_order(pair))
    longest = pair.decode_pool - pair.reserve
    assert all(count <= longest or count >= pair.decode_limit for _, count, _ in pair.asked)


async def test_an_exposed_pair_is_not_probed_without_acceptance() -> None:
    pair = FakePair(**SEPTEMBER)
    result = await run_round(make_order(pair))
    assert pair.asked == []
    assert set(verdicts(result).values()) == {Verdict.NOT_EXERCISED}
    reason = check_of(result, "foreign_marker").reason
    assert "--via pair" in reason
    assert "--accept-exposure" in reason


async def test_unequal_limits_of_a_fixed_version_are_refused_and_accepted_end_in_time() -> None:
    figures: dict[str, Any] = {**SEPTEMBER, "version": "0.5.22", "is_guarded": True}
    refused = await run_round(make_order(FakePair(**figures)))
    assert "unequal" in check_of(refused, "refusal").reason
    pair = FakePair(**figures)
    result = await run_round(make_order(pair, acceptance=ACCEPTED))
    (over, *_) = asked_at(result, 10_618)
    assert over.outcome is Outcome.NO_ANSWER
    found = verdicts(result)
    assert found["answered"] is Verdict.FAIL
    assert check_of(result, "answered").kind is Kind.AVAILABILITY
    assert Verdict.PASS not in found.values()
    assert found["foreign_marker"] is Verdict.INCONCLUSIVE
    after = [row for row in result.rows if row.position > over.position]
    assert after
    assert not any(row.is_sent for row in after)


async def test_a_model_that_does_not_speak_makes_silence_inconclusive() -> None:
    pair = FakePair(version="0.5.22", is_guarded=True, is_mute=True)
    found = verdicts(await run_round(make_order(pair)))
    assert found["foreign_marker"] is Verdict.INCONCLUSIVE
    assert found["own_nonce"] is Verdict.INCONCLUSIVE
    assert found["refusal"] is Verdict.PASS


async def test_a_count_of_one_token_is_never_a_pass() -> None:
    pair = FakePair(version="0.5.22", is_guarded=True, lies_about_tokens=True)
    found = verdicts(await run_round(make_order(pair)))
    # That nothing over the limit was answered is true whatever is counted.
    assert found.pop("answers_alike") is Verdict.PASS
    assert Verdict.PASS not in found.values()


async def test_two_rounds_share_no_nonce() -> None:
    pair = FakePair(version="0.5.22", is_guarded=True)
    first = await run_round(make_order(pair, seed=1))
    second = await run_round(make_order(pair, seed=2))
    nonces = [{row.request for row in one.rows} for one in (first, second)]
    assert not nonces[0] & nonces[1]
    digests = [{row.answer_digest for row in one.rows if row.is_served} for one in (first, second)]
    assert not digests[0] & digests[1]


async def test_a_marker_of_an_earlier_round_is_known() -> None:
    pair = FakePair(**SEPTEMBER)
    first = await run_round(make_order(pair, seed=1, acceptance=ACCEPTED))
    asks = {row.request for row in first.rows}
    second = await run_round(make_order(pair, seed=2, acceptance=ACCEPTED))
    seen = {one.request for row in second.rows for one in row.foreign}
    assert seen
    assert seen <= asks | {row.request for row in second.rows}


@pytest.mark.parametrize("context", [120, 180, 260, 420])
async def test_a_context_too_small_for_a_round_is_never_a_pass_by_silence(context: int) -> None:
    pair = FakePair(context=context, page_size=16, version="0.5.22", is_guarded=True)
    result = await run_round(make_order(pair))
    assert len(result.rows) < 200
    unsent = [row for row in result.rows if not row.is_sent]
    assert (result.judgement().verdict is Verdict.PASS) == (not unsent)


async def test_many_clean_rounds_say_what_they_exclude() -> None:
    pair = FakePair(version="0.5.22", is_guarded=True)
    results = [await run_round(make_order(pair, seed=seed)) for seed in range(6)]
    judgement = judge_rounds(results)
    leak = next(one for one in judgement.checks if one.kind is Kind.LEAK)
    assert leak.verdict is Verdict.PASS
    assert leak.figures["rounds"] == 6
    assert leak.figures["excluded_rate_95"] == pytest.approx(0.5)
    assert leak.figures["excluded_rate_999"] == 1.0
    assert "none at 99.9 %" in leak.reason
    many = judge_rounds(results * 5)
    for check in many.checks:
        assert check.figures["rounds"] == 30
        assert check.figures["excluded_rate_95"] == pytest.approx(3.0 / 30)
        assert check.figures["excluded_rate_999"] == pytest.approx(6.9 / 30)


async def test_one_bad_round_of_many_decides() -> None:
    clean = await run_round(make_order(FakePair(version="0.5.22", is_guarded=True)))
    leaky = await run_round(make_order(FakePair(**SEPTEMBER), acceptance=ACCEPTED))
    document = canary_document([clean, leaky, clean])
    assert document["verdict"] == "fail"
    assert len(document["rounds"]) == 3
    assert {one["check"] for one in document["checks"]} == {
        "boundary.foreign_marker",
        "boundary.own_nonce",
        "boundary.refusal",
        "boundary.answered",
        "boundary.token_counts",
        "boundary.answers_alike",
    }


async def test_no_answer_and_no_key_is_in_the_document() -> None:
    recorder = Recorder()
    order = make_order(FakePair(**SEPTEMBER), acceptance=ACCEPTED)
    result = await run_round(order, recorder)
    shown = repr(canary_document([result])) + repr(result) + repr(order)
    assert "key-a" not in shown
    assert "key-b" not in shown
    assert "the secret of these tests" not in shown
    leaked = next(
        text for row, text in zip(recorder.rows, recorder.texts, strict=True) if row.foreign
    )
    assert leaked[:24] not in shown
