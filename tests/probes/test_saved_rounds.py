"""Rounds that others made and saved: public reports of area b, and what each must come to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from common.verdicts import Verdict
from probes.canary.saved import judge_saved
from probes.judgement import Check, Kind, Skipped

CASES = Path(__file__).resolve().parents[1] / "data" / "cases.jsonl"
Row = Mapping[str, object]


def case(name: str) -> dict[str, object]:
    """Answer the input of a public report."""
    rows = (json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines())
    found: dict[str, object] = next(one for one in rows if one["id"] == name)["input"]
    return found


def judged(rows: Sequence[Row], **more: object) -> dict[str, Check]:
    """Answer the checks of one round made elsewhere, by oracle."""
    found = judge_saved([{"plan": "observed", "rows": list(rows), **more}])
    assert all(isinstance(one, Check | Skipped) for one in found)
    return {one.check.partition(".")[2]: one for one in found if isinstance(one, Check)}


def test_c01_over_limit_answered_fails_whatever_the_text_is() -> None:
    told = case("C01")
    probes = told["probes"]
    assert isinstance(probes, list)
    rows = [
        {
            "length": one["len"],
            "max_new_tokens": 16,
            "status": one["http"],
            "prompt_tokens": one["usage_prompt_tokens"],
            "answer": one["text"],
            **({"expect": one["text"].split()[0]} if one["text"].startswith("MK") else {}),
        }
        for one in probes
    ]
    checks = judged(rows, scene={"first_refused": told["max_req_input_len"]})
    assert checks["refusal"].verdict is Verdict.FAIL
    assert checks["refusal"].kind is Kind.OVER_LIMIT_SERVED
    assert checks["refusal"].figures["length"] == told["max_req_input_len"]
    assert checks["token_counts"].verdict is Verdict.FAIL
    clean = judged(rows[:2], scene={"first_refused": told["max_req_input_len"]})
    assert "refusal" not in clean
    assert {one.verdict for one in clean.values()} == {Verdict.PASS}


def test_over_limit_refused_passes_only_where_something_within_it_was_answered() -> None:
    refused = {"length": 2000, "status": 400, "error": "Input length (2000 tokens) exceeds"}
    answered = {"length": 100, "status": 200, "answer": "MK-1 ok", "prompt_tokens": 100}
    scene = {"first_refused": 1018}
    assert judged([answered, refused], scene=scene)["refusal"].verdict is Verdict.PASS
    assert judged([refused], scene=scene)["refusal"].verdict is Verdict.INCONCLUSIVE


def test_c03_marker_in_the_reasoning_is_a_leak() -> None:
    told = case("C03")
    checks = judged(
        [{"tenant": "B", "response": told["response"], "expect": "MK-B-1"}],
        markers=[{"text": told["marker_of_other_tenant"], "tenant": "A", "request": "a1"}],
    )
    assert checks["foreign_marker"].verdict is Verdict.FAIL
    assert checks["foreign_marker"].kind is Kind.LEAK
    assert checks["foreign_marker"].figures["tenant"] == "A"


@pytest.mark.parametrize(
    "message",
    [
        {"content": "", "reasoning_content": "see MK-A-4411"},
        {"content": "", "refusal": "MK-A-4411"},
        {
            "content": "",
            "tool_calls": [{"function": {"name": "f", "arguments": '{"x":"MK-A-4411"}'}}],
        },
    ],
)
def test_every_part_of_an_answer_is_looked_at(message: dict[str, object]) -> None:
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    markers = [{"text": "MK-A-4411", "tenant": "A"}]
    assert judged([{"tenant": "B", "response": body}], markers=markers)[
        "foreign_marker"
    ].verdict is (Verdict.FAIL)


def test_tokens_of_the_log_probabilities_are_joined() -> None:
    tokens = [{"token": one, "logprob": -0.1} for one in ("MK", "-A", "-44", "11")]
    choice = {"message": {"content": "x"}, "logprobs": {"content": tokens}, "finish_reason": "stop"}
    markers = [{"text": "MK-A-4411", "tenant": "A"}]
    rows = [{"tenant": "B", "response": {"choices": [choice]}}]
    assert judged(rows, markers=markers)["foreign_marker"].verdict is Verdict.FAIL


def test_c04_no_cached_tokens_excuse_nothing() -> None:
    told = case("C04")
    answer = told["B"]
    assert isinstance(answer, dict)
    rows = [
        {"tenant": "A", "request": "a", "length": 30, "answer": "ok", "expect": ""},
        {
            "tenant": "B",
            "request": "b",
            "length": 30,
            "answer": answer["text"],
            "expect": "MK-B-12",
            "cached_tokens": 0,
        },
    ]
    checks = judged(rows, markers=[{"text": "MK-A-77", "tenant": "A", "request": "a"}])
    assert checks["foreign_marker"].verdict is Verdict.FAIL


def test_c05_pieces_of_a_marker_are_a_suspicion_and_its_control_is_not() -> None:
    told = case("C05")
    controls = told["controls"]
    assert isinstance(controls, dict)
    markers = [{"text": told["marker_A"], "tenant": "A", "request": "a1"}]
    own = {
        "tenant": "B",
        "request": "own",
        "answer": "my code is CB-200-300",
        "expect": "CB-200-300",
    }
    suspect = {"tenant": "B", "request": "b1", "answer": told["B_text"]}
    alone = {"tenant": "B", "request": "b0", "answer": controls["B_solo_text"]}
    checks = judged([own, suspect], markers=markers)
    assert checks["foreign_marker"].verdict is Verdict.INCONCLUSIVE
    assert "pieces" in checks["foreign_marker"].reason
    assert judged([own, alone], markers=markers)["foreign_marker"].verdict is Verdict.PASS


def test_c07_bystanders_are_judged_like_probes() -> None:
    told = case("C07")
    results = told["results"]
    assert isinstance(results, list)
    rows = [
        {
            "request": one["rid"],
            "answer": "x",
            "bystander": one["role"] == "bystander",
            "matches_reference": one["match"],
        }
        for one in results
    ]
    check = judged(rows)["reference"]
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.CORRUPTION)
    assert check.figures["requests"] == "r1, b2"
    assert check.figures["mismatches"] == 2
    good = judged([{**row, "matches_reference": True} for row in rows])["reference"]
    assert good.verdict is Verdict.PASS


def test_c08_one_length_alone_is_corrupt() -> None:
    told = case("C08")
    lengths, wrong, runs = told["prefix_lens"], told["mismatch"], told["runs"]
    assert isinstance(lengths, list)
    assert isinstance(wrong, list)
    assert isinstance(runs, int)
    rows = [
        {"length": length, "answer": "x", "matches_reference": number >= bad}
        for length, bad in zip(lengths, wrong, strict=True)
        for number in range(runs)
    ]
    check = judged(rows)["reference"]
    assert check.verdict is Verdict.FAIL
    assert check.figures["lengths"] == [64]


def test_c09_a_wrong_first_token_is_corruption_with_its_rate() -> None:
    told = case("C09")
    count, wrong = told["n"], told["wrong"]
    assert isinstance(count, int)
    assert isinstance(wrong, int)
    rows = [
        {"request": f"r{number}", "expect": "K7", "answer": "Q7" if number < wrong else "K7"}
        for number in range(count)
    ]
    check = judged(rows)["own_nonce"]
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.CORRUPTION)
    assert check.figures["rate"] == pytest.approx(0.0075)


def test_c10_a_falling_share_of_right_answers_is_a_trend() -> None:
    told = case("C10")
    windows = told["windows"]
    assert isinstance(windows, list)
    counted = [{"answers": 50, "right": round(50 * one["acc"])} for one in windows]
    check = judged([], windows=counted)["trend"]
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.CORRUPTION)
    steady = [{"answers": 50, "right": right} for right in (48, 47, 48)]
    assert judged([], windows=steady)["trend"].verdict is Verdict.PASS


def test_c11_one_bad_worker_of_eight_is_named_and_a_router_alone_is_no_pass() -> None:
    workers = [f"w{number}" for number in range(8)]
    rows = [
        {"worker": name, "expect": "MK-1", "answer": "garbage" if name == "w0" else "MK-1"}
        for name in workers
        for _ in range(20)
    ]
    check = judged(rows, scene={"workers": workers})["coverage"]
    assert (check.verdict, check.figures["worker"]) == (Verdict.FAIL, "w0")
    hidden = [{"expect": "MK-1", "answer": "MK-1"} for _ in range(20)]
    assert judged(hidden, scene={"workers": workers})["coverage"].verdict is Verdict.INCONCLUSIVE
    sound = [{**row, "answer": "MK-1"} for row in rows]
    assert judged(sound, scene={"workers": workers})["coverage"].verdict is Verdict.PASS


def test_c12_one_stored_answer_for_two_teams_is_a_leak_of_the_gateway() -> None:
    told = case("C12")
    first, second = told["A"], told["B"]
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    rows = [
        {
            "tenant": one["team"],
            "script": one["body_sha"],
            "answer": "hello",
            "answer_id": one["id"],
            "cache_marks": one["headers"],
        }
        for one in (first, second)
    ]
    check = judged(rows)["shared_answer"]
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.LEAK)
    assert check.figures["layer"] == "gateway response cache"


def test_c13_a_semantic_hit_by_another_user_is_a_leak_and_by_the_same_user_is_none() -> None:
    rows = [
        {"tenant": "alice", "script": "q", "answer": "a" * 90, "cache_marks": {"x-cache": "MISS"}},
        {"tenant": "alice", "script": "q", "answer": "a" * 90, "cache_marks": {"x-cache": "HIT"}},
        {"tenant": "bob", "script": "q", "answer": "a" * 90, "cache_marks": {"x-cache": "HIT"}},
    ]
    assert judged(rows)["shared_answer"].verdict is Verdict.FAIL
    fresh = {**rows[2], "answer": "b" * 90, "cache_marks": {"x-cache": "MISS"}}
    assert judged([*rows[:2], fresh])["shared_answer"].verdict is Verdict.PASS


def test_the_same_text_alone_does_not_tell_a_cache_from_a_model_that_repeats_itself() -> None:
    rows = [{"tenant": name, "script": "q", "answer": "a" * 90} for name in ("alice", "bob")]
    assert judged(rows)["shared_answer"].verdict is Verdict.INCONCLUSIVE


def test_c15_a_hit_under_a_salt_that_nobody_used_is_a_leak() -> None:
    told = case("C15")
    second = told["B"]
    assert isinstance(second, dict)
    rows = [
        {"tenant": "A", "script": "P", "adapter": "COLLIDE-1", "answer": "x", "cached_tokens": 0},
        {
            "tenant": "B",
            "script": "P",
            "salt": "COLLIDE-1",
            "answer": "x",
            "cached_tokens": second["cached_tokens"],
        },
    ]
    assert judged(rows)["foreign_hit"].verdict is Verdict.FAIL


def test_no_foreign_hit_passes_only_where_ones_own_prompt_hit() -> None:
    rows = [
        {"tenant": "A", "script": "P", "salt": "s1", "answer": "x", "cached_tokens": 0},
        {"tenant": "B", "script": "P", "salt": "s2", "answer": "x", "cached_tokens": 0},
    ]
    assert judged(rows)["foreign_hit"].verdict is Verdict.NOT_EXERCISED
    own = {**rows[0], "cached_tokens": 1024}
    assert judged([*rows, own])["foreign_hit"].verdict is Verdict.PASS


def test_c16_a_salt_that_a_tier_drops_is_a_timing_channel() -> None:
    told = case("C16")
    times = told["ttft_ms"]
    assert isinstance(times, dict)

    def arm(tenant: str, salt: str, name: str, key: str) -> list[Row]:
        return [
            {
                "tenant": tenant,
                "salt": salt,
                "script": f"{name}{number}",
                "answer": "x",
                "first_token_s": times[key] / 1000,
            }
            for number in range(3)
        ]

    rows = [
        *arm("A", "s1", "shared", "A_cold"),
        *arm("A", "s1", "shared", "B_other_salt"),
        *arm("B", "s2", "shared", "B_other_salt"),
        *arm("B", "s2", "new", "B_fresh_prompt"),
    ]
    check = judged(rows)["foreign_speed"]
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.TIMING)
    assert check.figures["ratio"] == pytest.approx(0.35, abs=0.01)


def test_c18_one_id_of_two_tenants_is_told() -> None:
    rows = [{"tenant": name, "request": "probe-1", "answer": "x"} for name in ("A", "B")]
    assert judged(rows)["request_ids"].verdict is Verdict.FAIL


def test_c19_shifted_answers_are_a_leak_of_the_connection() -> None:
    asked = ["foo", "bar", "pong", "baz"]
    got = [None, "foo", "bar", "pong"]
    rows = [
        {"request": f"r{number}", "tenant": "A", "answer": answer, "left": answer is None}
        for number, answer in enumerate(got)
    ]
    markers = [
        {"text": text, "tenant": "A", "request": f"r{number}"} for number, text in enumerate(asked)
    ]
    check = judged(rows, markers=markers)["foreign_marker"]
    assert check.verdict is Verdict.FAIL
    assert "connection" in check.reason


def test_c20_unknown_values_without_a_control_are_neither_confirmed_nor_dismissed() -> None:
    told = case("C20")
    requests, others = told["requests"], told["known_values_of_other_requests"]
    assert isinstance(requests, list)
    assert isinstance(others, list)
    rows = [{"request": one["id"], "answer": one["got"], "expect": one["sent"]} for one in requests]
    checks = judged(rows, markers=[{"text": text, "tenant": "other"} for text in others])
    assert checks["foreign_marker"].verdict is Verdict.INCONCLUSIVE
    assert checks["own_nonce"].verdict is Verdict.INCONCLUSIVE
    assert "raw request" in checks["own_nonce"].reason


def test_c21_aborts_with_an_alarming_text_are_an_outage_and_no_leak() -> None:
    told = case("C21")
    count, failed = told["n"], told["http_500"]
    assert isinstance(count, int)
    assert isinstance(failed, int)
    rows = [
        {"tenant": "B", "expect": "MK-B-1", "status": 500, "error": told["log"]}
        if number < failed
        else {"tenant": "B", "expect": "MK-B-1", "answer": "MK-B-1"}
        for number in range(count)
    ]
    checks = judged(rows, markers=[{"text": "MK-A-1x", "tenant": "A"}])
    assert checks["foreign_marker"].verdict is Verdict.PASS
    assert checks["own_nonce"].verdict is Verdict.PASS
    assert (checks["answered"].verdict, checks["answered"].kind) == (
        Verdict.FAIL,
        Kind.AVAILABILITY,
    )
    assert checks["answered"].figures["failed"] == failed


def test_c23_a_stream_that_never_ends_tells_nothing_of_leaks() -> None:
    told = case("C23")
    probe = told["probe"]
    assert isinstance(probe, dict)
    row = {
        "length": probe["prompt"],
        "max_new_tokens": probe["max_tokens"],
        "completion_tokens": told["tokens_received"],
        "stalled": True,
        "seconds": told["elapsed_s"],
        "status": 200,
        "answer": "some text",
    }
    scene = {"first_refused": told["max_model_len"], "pool": told["servable"]}
    check = judged([row], scene=scene)["answered"]
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "stalled at output 9" in check.reason


def test_c24_an_abort_disguised_as_a_length_stop_is_no_refusal() -> None:
    told = case("C24")
    probe, response = told["probe"], told["response"]
    assert isinstance(probe, dict)
    assert isinstance(response, dict)
    row = {
        "length": probe["len"],
        "max_new_tokens": probe["max_tokens"],
        "status": response["http"],
        "finish": response["finish_reason"],
        "completion_tokens": response["completion_tokens"],
        "answer": response["text"],
    }
    check = judged([row], scene={"first_refused": 284922})["refusal"]
    assert check.verdict is Verdict.FAIL


def test_c25_time_outs_alone_are_an_outage_of_which_nobody_knows_whether_it_leaks() -> None:
    rows = [
        {"tenant": "B", "status": 0, "error": "timeout", "expect": "MK-B", "length": 100}
        for _ in range(5)
    ]
    checks = judged(rows, markers=[{"text": "MK-A-1x", "tenant": "A"}])
    assert checks["answered"].verdict is Verdict.FAIL
    assert checks["foreign_marker"].verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"plan": "no-such-plan"},
        {"rows": 5},
        {"rows": [{"length": "long"}]},
        {"rows": [{"answer": 5}]},
        {"rows": [{"part": "nobody"}]},
        {"windows": [{"answers": 3, "right": 5}]},
        {"rows": [{"missing_pages": ["one"]}]},
        {"rows": [{"asked_pages": 5}]},
        {"departures": [{"stay": "leaves"}]},
        {"markers": [{"tenant": "A"}]},
        {"scene": {"pairs": [{"name": "x"}]}},
    ],
)
def test_a_round_of_another_shape_is_inconclusive_and_says_where(document: object) -> None:
    (check,) = judge_saved([document])
    assert isinstance(check, Check)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "canary.rounds[0]" in check.reason


def test_the_published_schema_names_every_field_that_is_read() -> None:
    root = Path(__file__).resolve().parents[2]
    schema = json.loads((root / "docs/schemas/canary-rounds.schema.json").read_text("utf-8"))
    named = set(schema["$defs"]["row"]["properties"])
    source = (root / "probes/canary/saved_rows.py").read_text("utf-8")
    bare = source.partition("def _bare")[2].partition("def _marks")[0]
    read = set(re.findall(r'_in\(document, "([a-z_]+)"', bare))
    assert read
    assert read <= named


def test_an_answer_that_nobody_kept_clears_nobody_and_accuses_nobody() -> None:
    own = {"tenant": "B", "request": "b0", "answer": "MK-B-100", "expect": "MK-B-100"}
    lost = {"tenant": "B", "request": "b1", "status": 200, "expect": "MK-B-200"}
    checks = judged([own, lost], markers=[{"text": "MK-A-4411", "tenant": "A"}])
    assert checks["foreign_marker"].verdict is Verdict.INCONCLUSIVE
    assert checks["own_nonce"].verdict is Verdict.PASS


@pytest.mark.parametrize("row", [{"status": 401}, {"left": True, "status": 0}])
def test_a_request_that_never_reached_the_engine_is_no_answer(row: Row) -> None:
    answered = {"length": 10, "answer": "ok"}
    assert judged([answered, {"length": 10, **row}])["answered"].verdict is Verdict.INCONCLUSIVE


def test_a_worker_whose_answers_show_nothing_was_not_covered() -> None:
    rows = [
        {"worker": "w0", "expect": "MK-B-100", "answer": "MK-B-100"},
        {"worker": "w1", "answer": "fluent"},
    ]
    check = judged(rows, scene={"workers": ["w0", "w1"]})["coverage"]
    assert check.verdict is Verdict.INCONCLUSIVE
