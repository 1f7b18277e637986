"""What answers to prompts are read as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.completions import read_completion
from fleet.contract import Reply
from tests.fleet.wire import RECORDED

ROWS = [
    row
    for line in (RECORDED / "recordings.jsonl").read_text().splitlines()
    if (row := json.loads(line))["path"] == "/generate" and row["status"]
]
LIMIT = "Input length (1020 tokens) exceeds the maximum allowed length (1018 tokens)."


def reply(body: object, status: int = 200) -> Reply:
    text = body if isinstance(body, str) else json.dumps(body)
    return Reply(status=status, body=text.encode(errors="replace"), seconds=0.5)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["source"])
def test_every_recorded_answer_is_read(row: dict[str, Any]) -> None:
    completion = read_completion(reply(row["body"], row["status"]))
    assert completion.status == row["status"]
    if row["status"] == 200:
        meta = row["body"]["meta_info"]
        assert completion.prompt_tokens == meta["prompt_tokens"]
        assert completion.completion_tokens == meta["completion_tokens"]
        assert completion.finish == meta["finish_reason"]["type"]
        said = meta["finish_reason"].get("status_code")
        assert (completion.event_status, completion.is_refused) == (said, said == 400)
        assert completion.token_ids == tuple(row["body"].get("output_ids", ()))
    else:
        error = row["body"].get("error", row["body"])
        assert completion.error
        assert error["message"].startswith(completion.error.rstrip("…"))
        assert error["message"].splitlines()[0] in completion.text
        assert completion.is_refused


def test_a_plain_answer_is_its_text_alone() -> None:
    body = {
        "text": "to be or",
        "output_ids": [1, 2],
        "meta_info": {
            "id": "5b0a",
            "finish_reason": {"type": "length", "length": 8},
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "weight_version": "default",
        },
    }
    completion = read_completion(reply(body))
    assert (completion.text, completion.error, completion.seconds) == ("to be or", "", 0.5)
    assert (completion.answer, completion.token_ids) == ("to be or", (1, 2))
    assert (completion.answer_id, completion.said_status) == ("5b0a", 200)


@pytest.mark.parametrize(
    "body",
    [
        {"object": "error", "message": LIMIT, "type": "BadRequest", "param": None, "code": 400},
        {"error": {"message": LIMIT}},
        {"error": {"type": "Bad Request", "code": "decode_bad_request", "message": LIMIT}},
        {"error": LIMIT},
        {"detail": LIMIT},
        {"error": {"error": {"message": LIMIT}}},
        LIMIT,
    ],
)
def test_every_shape_of_an_error_gives_its_message(body: object) -> None:
    completion = read_completion(reply(body, 400))
    assert (completion.error, completion.is_refused) == (LIMIT, True)
    assert LIMIT in completion.text


def test_an_abort_under_200_is_a_refusal() -> None:
    reason = {"type": "abort", "message": LIMIT, "status_code": 400}
    body = {"text": "", "meta_info": {"finish_reason": reason, "prompt_tokens": 1}}
    completion = read_completion(reply(body))
    assert (completion.finish, completion.error, completion.is_refused) == ("abort", LIMIT, True)
    assert LIMIT in completion.text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "no JSON"),
        ("<html>gateway</html>", "no JSON"),
        ('{"text": "ab', "no JSON"),
        ([], "no text"),
        ({}, "no text"),
        ({"text": 7, "meta_info": {"prompt_tokens": 1}}, "no text"),
        ({"text": "a"}, "prompt tokens"),
        ({"text": "a", "meta_info": {"prompt_tokens": True}}, "prompt tokens"),
        ({"text": "a", "meta_info": []}, "prompt tokens"),
        ({"error": {"message": LIMIT}}, "exceeds"),
        ({"choices": []}, "no text"),
        ({"choices": [7]}, "no text"),
        ({"choices": [{"text": "a"}]}, "prompt tokens"),
        ({"choices": [{"text": "a"}], "usage": {"prompt_tokens": -1}}, "prompt tokens"),
    ],
)
def test_a_200_that_cannot_be_judged_says_so(body: object, words: str) -> None:
    completion = read_completion(reply(body))
    assert completion.status == 200
    assert words in completion.error


@pytest.mark.parametrize("place", ["text", "message", "reasoning_content", "anything", "delta"])
def test_a_marker_is_found_in_every_part_that_can_carry_text(place: str) -> None:
    nested = {"choices": [{"logprobs": None, "inner": {place: "PW-MARK-1"}}]}
    for body, status in ((nested, 200), (nested, 500), ([nested], 200), ("PW-MARK-1 {", 200)):
        assert "PW-MARK-1" in read_completion(reply(body, status)).text


def test_only_the_first_choice_is_the_answer_and_all_are_searched() -> None:
    choices = [{"index": 1, "text": "second"}, {"index": 0, "text": "first"}]
    completion = read_completion(reply({"choices": choices, "usage": {"prompt_tokens": 3}}))
    assert (completion.answer, completion.error) == ("first", "")
    assert {"first", "second"} <= set(completion.text.split("\n"))


@pytest.mark.parametrize("error", [{"message": LIMIT, "code": 503}, LIMIT, {"message": LIMIT}])
def test_a_fault_under_200_is_no_refusal(error: object) -> None:
    completion = read_completion(reply({"error": error}))
    assert (completion.status, completion.is_refused) == (200, False)
    assert completion.said_status >= 500


def test_a_null_error_is_none() -> None:
    body = {"error": None, "choices": [{"text": "a"}], "usage": {"prompt_tokens": 3}}
    completion = read_completion(reply(body))
    assert (completion.event_status, completion.error, completion.answer) == (None, "", "a")


def test_tokens_apart_are_also_found_joined() -> None:
    places = [{"token": "7Q2M", "top_logprobs": [{"token": "x"}]}, {"token": "9XK4"}]
    body = {"choices": [{"message": {"content": ""}, "logprobs": {"content": places}}]}
    assert "7Q2M9XK4" in read_completion(reply(body)).text
    assert "7Q2M\n" in read_completion(reply(body)).text
    generated = {"text": "", "meta_info": {"output_token_logprobs": [[-1, 5, "7Q"], [-2, 6, "2M"]]}}
    completion = read_completion(reply(generated))
    assert "7Q2M" in completion.text
    assert completion.token_ids == (5, 6)


def test_ids_written_as_words_are_read() -> None:
    words = {"tokens": ["token_id:5", "token_id:6"]}
    body = {"choices": [{"text": "ab", "logprobs": words}], "usage": {"prompt_tokens": 1}}
    assert read_completion(reply(body)).token_ids == (5, 6)
    words["tokens"][1] = "b"
    assert read_completion(reply(body)).token_ids == ()


def test_ids_beside_log_probabilities_are_read_as_llamacpp_shows_them() -> None:
    places = [{"id": 7042, "token": " Paris", "logprob": -0.2}, {"id": 30, "token": "."}]
    choice = {"text": " Paris.", "logprobs": {"content": places}}
    completion = read_completion(reply({"choices": [choice], "usage": {"prompt_tokens": 5}}))
    assert (completion.token_ids, completion.error) == ((7042, 30), "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "meta_info", "finish_reason", "type", "error", "message"])
            | st.sampled_from(["choices", "delta", "usage", "logprobs", "content", "code", "x"])
            | st.text(max_size=4),
            inner,
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=100), JSON, st.integers(100, 599))
def test_no_body_whatever_makes_reading_raise(raw: bytes, document: object, status: int) -> None:
    for body in (raw, json.dumps(document).encode()):
        completion = read_completion(Reply(status=status, body=body))
        assert completion.status == status
        assert "\n" not in completion.error
