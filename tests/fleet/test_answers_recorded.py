"""Every recorded answer is read as what it is, however its bytes arrive."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.fleet.recorded import ANSWERS, ROWS, documents_of, hear, told_by

#: What stands in an answer that was no service. Source: the recordings' own notes.
REFUSALS = re.compile(
    r"exceeds the maximum allowed length|is longer than the model's context length|"
    r"Requested token count exceeds|maximum context length is|exceeds the available context|"
    r"cannot be greater than max_model_len|must be a non-empty string"
)
FAULT = "Decode transfer failed"
PARTS = (1, 7, 64, 10**6)


def is_error(row: dict[str, Any]) -> bool:
    documents = documents_of(row)
    return (
        row["status"] != 200
        or any("error" in one for one in documents)
        or '"type":"abort"' in row["body"]
    )


def ids(row: dict[str, Any]) -> str:
    return str(row["source"])


SERVED = [row for row in ROWS if not is_error(row)]
NOT_SERVED = [row for row in ROWS if is_error(row)]


def test_the_recordings_cover_every_engine_route_and_kind_of_answer() -> None:
    kinds = {
        (row["source"].partition("/")[0], row["path"], row["is_streamed"], is_error(row))
        for row in ROWS
    }
    for route in ("/generate", "/v1/completions", "/v1/chat/completions"):
        for is_streamed in (True, False):
            for fails in (True, False):
                assert ("sglang-run", route, is_streamed, fails) in kinds
    for engine in ("vllm", "llamacpp", "router"):
        assert {kind[2:] for kind in kinds if kind[0] == engine} >= {(True, True), (False, False)}


@pytest.mark.parametrize("row", SERVED, ids=ids)
def test_a_served_answer_is_read_whole(row: dict[str, Any]) -> None:
    told = told_by(row)
    for part_bytes in PARTS:
        came = hear(row, part_bytes=part_bytes)
        assert (came.status, came.is_refused, came.event_status) == (200, False, None)
        assert came.answer == told.answer
        assert (came.finish, came.prompt_tokens) == (told.finish, told.prompt_tokens)
        assert came.completion_tokens == told.completion_tokens
        assert came.text.startswith(told.answer)
        # The dummy workers behind the routers count and finish nothing when they stream.
        assert bool(came.error) == (told.finish is None)


@pytest.mark.parametrize("row", NOT_SERVED, ids=ids)
def test_a_refusal_and_a_fault_are_told_apart(row: dict[str, Any]) -> None:
    for part_bytes in PARTS:
        came = hear(row, part_bytes=part_bytes)
        assert came.status == row["status"]
        assert came.error
        assert "\n" not in came.error
        if row["status"] == 200:
            is_fault = FAULT in row["body"]
            assert came.event_status == (500 if is_fault else 400)
            assert came.is_refused is not is_fault
            assert (FAULT in came.error) is is_fault
        else:
            assert (came.event_status, came.is_refused) == (None, True)
        if REFUSALS.search(row["body"]):
            assert REFUSALS.search(came.text)
        assert came.first_token_s is None


@pytest.mark.parametrize("row", [row for row in SERVED if row["is_streamed"]], ids=ids)
def test_a_stream_is_counted_and_timed(row: dict[str, Any]) -> None:
    came = hear(row, part_bytes=1)
    documents = documents_of(row)
    assert came.frames == len(documents)
    first = next(place for place, one in enumerate(documents) if _says_something(one))
    ends = [match.end() for match in re.finditer(rb"\n\n", row["body"].encode())]
    # Part number n holds byte n, and the blank line ends the event.
    assert came.first_token_s == pytest.approx((ends[first] - 1) * 0.001)


def _says_something(document: dict[str, Any]) -> bool:
    if document.get("text") or document.get("output_ids"):
        return True
    said = [one.get("delta") or one for one in document.get("choices", [])]
    return any(one.get("content") or one.get("text") for one in said)


@pytest.mark.parametrize(
    "row", [row for row in SERVED if row["path"] == "/generate" and row["is_streamed"]], ids=ids
)
def test_what_generate_repeats_is_taken_once(row: dict[str, Any]) -> None:
    came = hear(row, part_bytes=64)
    last = documents_of(row)[-1]
    assert came.token_ids == tuple(last["output_ids"])
    assert came.text.count(came.answer) == 1
    assert came.cached_tokens == last["meta_info"]["cached_tokens"]
    assert came.answer_id == last["meta_info"]["id"]


def test_what_generate_sends_incrementally_is_put_together() -> None:
    body = (ANSWERS / "incremental-0.5.19.txt").read_text(encoding="utf-8")
    row = {"status": 200, "content_type": "text/event-stream", "is_streamed": True, "body": body}
    documents = documents_of(row)
    assert [len(one["output_ids"]) for one in documents] == [1, 1, 1, 1]
    for part_bytes in PARTS:
        came = hear(row, part_bytes=part_bytes)
        assert (came.answer, came.token_ids) == ("\ufffd\ufffd12", (99, 123, 323, 472))
        assert (came.prompt_tokens, came.completion_tokens, came.finish) == (6, 4, "length")
        assert (came.frames, came.error) == (4, "")
        # Once as the answer, and once as the tokens of the log-probabilities.
        assert came.text.split("\n")[:2] == ["\ufffd\ufffd12"] * 2


def test_the_model_and_the_id_of_an_answer_are_read() -> None:
    row = next(row for row in ROWS if row["source"] == "vllm/vllm032_reqid")
    came = hear(row, part_bytes=64)
    assert (came.answer_id, came.model) == ("cmpl-canary-42", "tiny")


def test_cached_tokens_are_read_where_they_are_shown() -> None:
    cached = {
        row["source"]: hear(row, part_bytes=64).cached_tokens
        for row in ROWS
        if row["source"].startswith("llamacpp/llama_c")
    }
    assert cached["llamacpp/llama_canary_other"] == 24
    assert cached["llamacpp/llama_canary_self"] == 0
    assert cached["llamacpp/llama_chat_stream"] == 24


def test_tokens_of_log_probabilities_and_their_ids_are_read() -> None:
    row = next(row for row in ROWS if row["source"] == "vllm/vllm032_prompt_logprobs")
    came = hear(row, part_bytes=64)
    assert came.token_ids == (262, 198)
    assert "ar\n\x05" in came.text
