"""Rules of reading a streamed answer: what is whole, what was said, what is an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.contract import Completion
from fleet.hearing import Ear
from fleet.streaming import StreamReading

MARKER = "7Q2M9XK4TD1RWZ8CVN5HBJ3F"
DONE = "data: [DONE]\n\n"
LIMIT = "Input length (1020 tokens) exceeds the maximum allowed length (1018 tokens)."


def event(document: object) -> str:
    return f"data: {json.dumps(document)}\n\n"


def generated(text: str, ids: Sequence[int], count: int, finish: object = None) -> dict[str, Any]:
    meta = {"id": "r", "finish_reason": finish, "prompt_tokens": 3, "completion_tokens": count}
    return {"text": text, "output_ids": list(ids), "meta_info": meta}


def chunk(finish: str | None = None, **delta: object) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


USAGE = {"id": "c", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
LENGTH = {"type": "length", "length": 3}


def heard(
    *texts: str,
    part_bytes: int = 7,
    fault: str = "",
    kind: str = "text/event-stream",
    is_streamed: bool = True,
) -> Completion:
    ear = Ear(is_streamed=is_streamed)
    ear.begin(200, {"content-type": kind})
    body = "".join(texts).encode()
    for start in range(0, len(body), part_bytes):
        if ear.hear(body[start : start + part_bytes], 0.5):
            break
    return ear.completion(seconds=1.0, fault=fault)


def test_generate_repeats_itself_and_is_taken_once() -> None:
    frames = [generated("a", [1], 1), generated("ab", [1, 2], 2), generated("abc", [1, 2, 3], 3)]
    frames[-1] = generated("abc", [1, 2, 3], 3, LENGTH)
    came = heard(*map(event, frames), DONE)
    assert (came.answer, came.token_ids, came.finish, came.error) == (
        "abc",
        (1, 2, 3),
        "length",
        "",
    )
    assert came.text == "abc"


@pytest.mark.parametrize("texts", [("a", "b", "c"), ("a", "ab", "abc"), ("", "a", "a"), ("a",) * 3])
def test_generate_that_sends_only_what_is_new_is_put_together(texts: tuple[str, ...]) -> None:
    frames = [
        generated(text, [place], place + 1, LENGTH if place == 2 else None)
        for place, text in enumerate(texts)
    ]
    came = heard(*map(event, frames), DONE)
    assert (came.answer, came.token_ids) == ("".join(texts), (0, 1, 2))
    assert came.text == "".join(texts)


def test_generate_without_ids_is_told_by_its_texts() -> None:
    def bare(text: str, finish: object = None) -> str:
        meta = {"finish_reason": finish, "prompt_tokens": 3}
        return event({"text": text, "meta_info": meta})

    assert heard(bare("a"), bare("ab"), bare("abc", LENGTH), DONE).answer == "abc"
    assert heard(bare("a"), bare("b"), bare("c", LENGTH), DONE).answer == "abc"
    # What could be either is kept in both readings, so that no marker is lost.
    either = heard(bare("7Q2M"), bare("7Q2M9X"), bare("7Q2M9XK", LENGTH), DONE)
    assert "7Q2M7Q2M9X7Q2M9XK" in either.text


def test_what_a_later_frame_takes_back_is_still_searched() -> None:
    frames = [generated("a", [1], 1), generated(f"a{MARKER}", [1, 2], 2)]
    came = heard(*map(event, frames), event(generated("a", [1, 2, 3], 3, LENGTH)), DONE)
    assert came.answer == "a"
    assert MARKER in came.text


def test_deltas_are_put_together() -> None:
    came = heard(
        event(chunk(role="assistant", content="")),
        event(chunk(content="to ")),
        event(chunk(content="be")),
        event(chunk("length")),
        event(USAGE),
        DONE,
    )
    assert (came.answer, came.finish) == ("to be", "length")
    assert came.text.startswith("to be")
    assert (came.prompt_tokens, came.completion_tokens, came.error) == (3, 2, "")
    assert (came.frames, came.first_token_s) == (5, 0.5)


@pytest.mark.parametrize(
    ("ending", "is_whole"),
    [
        ([], False),
        ([event(USAGE)], False),
        ([event(chunk("stop"))], True),
        ([DONE], True),
        (["data: [DONE]"], True),
        ([event({"error": {"message": LIMIT, "code": 400}})], True),
    ],
)
def test_a_stream_that_is_not_ended_is_no_answer(ending: list[str], is_whole: bool) -> None:
    came = heard(event(chunk(content=MARKER)), *ending)
    assert came.is_answered is is_whole
    assert MARKER in came.text
    assert came.answer == MARKER
    if not is_whole:
        assert "cut off" in came.error
        assert "after" in came.error


@pytest.mark.parametrize(
    ("frames", "status"),
    [([event(chunk("stop", content="a"))], 0), ([event(chunk(content="a")), DONE], 200)],
)
def test_a_broken_connection_counts_unless_all_was_said(frames: list[str], status: int) -> None:
    came = heard(*frames, fault="the node closed the connection")
    assert came.status == status
    assert ("closed the connection, after 1 frame" in came.error) is (status == 0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"error": {"object": "error", "message": LIMIT, "type": "BAD_REQUEST", "code": 400}}, 400),
        ({"object": "error", "message": LIMIT, "type": "BadRequestError", "code": 400}, 400),
        ({"error": {"message": LIMIT, "type": "invalid_request_error", "code": 400}}, 400),
        ({"error": {"message": LIMIT, "code": "decode_bad_request", "type": "Bad Request"}}, 400),
        ({"error": {"message": LIMIT, "code": "400"}}, 400),
        ({"error": {"message": LIMIT, "type": "exceed_context_size_error"}}, 400),
        ({"error": {"message": LIMIT, "code": 503}}, 503),
        ({"error": {"message": LIMIT, "code": 500, "type": "INTERNAL_SERVER_ERROR"}}, 500),
        ({"error": {"message": LIMIT, "code": 429}}, 429),
        ({"error": {"message": LIMIT}}, 500),
        ({"error": LIMIT}, 500),
        ({"error": {"message": LIMIT, "code": True}}, 500),
        ({"error": {"error": {"message": LIMIT, "code": 400}}}, 400),
    ],
)
def test_an_error_event_says_whether_it_is_a_refusal(error: dict[str, Any], status: int) -> None:
    for frames in ([error], [chunk(content="a"), error, USAGE]):
        came = heard(*map(event, frames), DONE)
        assert (came.status, came.event_status, came.said_status) == (200, status, status)
        assert came.is_refused is (status < 500)
        assert came.error == LIMIT
        assert LIMIT in came.text


@pytest.mark.parametrize(("code", "is_refused"), [(400, True), (500, False), (None, True)])
def test_an_abort_under_200_says_whether_it_is_a_refusal(
    code: int | None, is_refused: bool
) -> None:
    reason = {"type": "abort", "message": LIMIT, "status_code": code}
    came = heard(event(generated("", [], 0, reason)), DONE)
    assert (came.event_status, came.is_refused, came.error) == (code, is_refused, LIMIT)
    chat = heard(event(chunk("abort")), event(USAGE), DONE)
    assert (chat.is_refused, chat.event_status) == (True, None)
    assert "aborted" in chat.error


def test_frames_that_are_no_json_are_kept_and_complained_of() -> None:
    half = len(MARKER) // 2
    came = heard(
        event(chunk(content="a")),
        f"data: {MARKER[:half]}\n\n: {MARKER[::-1]}\n\n",
        f"data: {MARKER[half:]}\n\n",
        event(chunk("stop")),
        event(USAGE),
        DONE,
    )
    assert "2 of 5 frames are no JSON" in came.error
    assert MARKER in came.text
    assert MARKER[::-1] in came.text
    assert came.answer == "a"


def test_events_without_a_blank_line_between_are_read_line_by_line() -> None:
    lines = event(chunk(content="a")).strip(), event(chunk("stop", content="b")).strip()
    came = heard("\n".join(lines), "\n\n", DONE)
    assert (came.answer, came.finish, came.frames) == ("ab", "stop", 2)


def test_json_over_several_lines_of_data_is_one_frame() -> None:
    pretty = json.dumps(chunk("stop", content="b"), indent=1).splitlines()
    came = heard("".join(f"data: {line}\r\n" for line in pretty), "\r\n", DONE)
    assert (came.answer, came.frames) == ("b", 1)


WHOLE = {"id": "c", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain", ""])
def test_a_whole_answer_where_a_stream_was_asked_for_is_read(kind: str) -> None:
    came = heard(json.dumps(WHOLE | {"usage": USAGE["usage"]}), kind=kind)
    assert (came.status, came.answer, came.prompt_tokens, came.frames) == (200, "hi", 3, 0)
    assert (came.first_token_s, came.error) == (None, "")


@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain", ""])
def test_a_stream_that_holds_nothing_is_no_answer(kind: str) -> None:
    for body in ("", "\n\n", ": ping\n\n", "<html>gateway</html>", "[]", "{}"):
        came = heard(body, kind=kind)
        assert came.status == 0
        assert came.error


def test_a_stream_is_read_where_none_was_asked_for() -> None:
    came = heard(event(chunk("stop", content="a")), DONE, is_streamed=False)
    assert came.answer == "a"


def test_nothing_after_done_is_waited_for() -> None:
    reading = StreamReading()
    assert not reading.hear(event(chunk("stop")).encode(), 0.1)
    assert reading.hear(DONE.encode(), 0.2)


def test_a_caller_that_heard_enough_has_no_answer_but_the_text() -> None:
    ear = Ear(is_streamed=True, enough=lambda stream: stream.first_token_s is not None)
    ear.begin(200, {"content-type": "text/event-stream"})
    assert not ear.hear(event(chunk(role="assistant", content="")).encode(), 0.1)
    assert ear.hear(event(chunk(content="a")).encode(), 0.2)
    came = ear.completion(seconds=0.3)
    assert (came.status, came.answer, came.first_token_s) == (0, "a", 0.2)
    # The clock is the one of the last byte; the asker's own also ran while it waited for a place.
    assert came.seconds == 0.2
    assert "heard enough" in came.error


def test_two_tool_calls_do_not_mix() -> None:
    def call(index: int, arguments: str) -> str:
        function = {"arguments": arguments}
        return event(chunk(tool_calls=[{"index": index, "function": function}]))

    pieces = [call(0, "7Q2M9X"), call(1, "other"), call(0, MARKER[6:]), call(1, "wise")]
    came = heard(*pieces, event(chunk("tool_calls")), DONE)
    assert MARKER in came.text
    assert "otherwise" in came.text
    assert came.first_token_s is not None


def logprobs_of_chat(pieces: list[str]) -> list[dict[str, Any]]:
    return [{"logprobs": {"content": [{"token": piece, "logprob": -0.5}]}} for piece in pieces]


#: Where a model's, an engine's or a gateway's words can stand, each as frames with their pieces.
FIELDS: dict[str, Callable[[list[str]], list[dict[str, Any]]]] = {
    "content": lambda pieces: [chunk(content=one) for one in pieces],
    "reasoning": lambda pieces: [chunk(reasoning=one) for one in pieces],
    "reasoning_content": lambda pieces: [chunk(reasoning_content=one) for one in pieces],
    "refusal": lambda pieces: [chunk(refusal=one) for one in pieces],
    "tool": lambda pieces: [
        chunk(tool_calls=[{"index": 0, "function": {"arguments": one}}]) for one in pieces
    ],
    "completion": lambda pieces: [
        {"choices": [{"index": 0, "text": one, "finish_reason": None}]} for one in pieces
    ],
    "second choice": lambda pieces: [
        {"choices": [{"index": 1, "text": one, "finish_reason": None}]} for one in pieces
    ],
    "chat logprobs": lambda pieces: [
        {"choices": [{"index": 0, "delta": {}, **one}]} for one in logprobs_of_chat(pieces)
    ],
    "logprobs": lambda pieces: [
        {"choices": [{"index": 0, "text": "", "logprobs": {"tokens": list(one)}}]}
        for one in pieces
        if one
    ],
    "top logprobs": lambda pieces: [
        {"choices": [{"index": 0, "text": "", "logprobs": {"top_logprobs": [{one: -0.5}]}}]}
        for one in pieces
        if one
    ],
    "generate": lambda pieces: [
        generated(one, [place], place + 1) for place, one in enumerate(pieces)
    ],
    "generate, repeated": lambda pieces: [
        generated("".join(pieces[: place + 1]), range(place + 1), place + 1)
        for place in range(len(pieces))
    ],
    "generate logprobs": lambda pieces: [
        {
            **generated("", [place], place + 1),
            "meta_info": {
                "completion_tokens": place + 1,
                "output_token_logprobs": [[-0.5, place, one]],
            },
        }
        for place, one in enumerate(pieces)
    ],
    "error": lambda pieces: [{"error": {"message": "".join(pieces), "code": 400}}],
    "abort": lambda pieces: [
        generated("", [], 0, {"type": "abort", "message": "".join(pieces), "status_code": 400})
    ],
    "unknown": lambda pieces: [{"anything": {"held": [one]}} for one in pieces],
}


@given(
    name=st.sampled_from(sorted(FIELDS)),
    borders=st.sets(st.integers(1, len(MARKER) - 1), max_size=6),
    part_bytes=st.integers(1, 200),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    is_ended=st.booleans(),
)
def test_a_marker_is_found_whole_in_every_field_at_every_split(
    name: str, borders: set[int], part_bytes: int, line_end: str, is_ended: bool
) -> None:
    places = [0, *sorted(borders), len(MARKER)]
    pieces = [MARKER[start:end] for start, end in pairwise(places)]
    frames = [event(one) for one in FIELDS[name](pieces)]
    body = "".join([*frames, DONE if is_ended else ""]).replace("\n", line_end)
    came = heard(body, part_bytes=part_bytes)
    assert MARKER in came.text
    if name in {"content", "completion", "generate", "generate, repeated"}:
        assert came.answer == MARKER


@given(
    start=st.integers(0, 4000),
    text=st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=24, max_size=24),
    part_bytes=st.integers(1, 300),
)
def test_a_stream_cut_off_anywhere_keeps_what_came(start: int, text: str, part_bytes: int) -> None:
    pieces = [text[place : place + 5] for place in range(0, len(text), 5)]
    body = "".join(event(chunk(content=one)) for one in pieces)
    came = heard(body[:start], part_bytes=part_bytes, fault="time-out")
    whole = body[:start].count("\n\n")
    assert came.status == 0
    assert came.text.startswith("".join(pieces)[: 5 * whole])
    assert "time-out" in came.error


NAMES = [
    *("text", "meta_info", "finish_reason", "type", "error", "message", "choices", "delta"),
    *("content", "usage", "output_ids", "code", "completion_tokens", "index", "logprobs"),
    *("tokens", "output_token_logprobs", "token_ids", "timings"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES) | st.text(max_size=4),
            inner,
        )
    ),
    max_leaves=12,
)
NOISE = (
    st.binary(max_size=60)
    | JSON.map(lambda one: event(one).encode())
    | st.sampled_from([DONE.encode(), b"data: ", b"\n\n", b"data: {", b"[" * 3000])
)


@given(st.lists(NOISE, max_size=8).map(b"".join), st.integers(1, 500), st.integers(200, 201))
def test_no_stream_of_bytes_whatever_makes_the_reader_raise(
    raw: bytes, part_bytes: int, status: int
) -> None:
    for is_streamed in (True, False):
        ear = Ear(is_streamed=is_streamed)
        ear.begin(status, {"content-type": "text/event-stream"})
        for start in range(0, len(raw), part_bytes):
            if ear.hear(raw[start : start + part_bytes], 0.1):
                break
        came = ear.completion(seconds=1.0)
        assert came.status in {0, status}
        assert "\n" not in came.error


@given(st.lists(JSON, max_size=5), st.integers(1, 500))
def test_the_borders_of_parts_change_nothing(documents: list[object], part_bytes: int) -> None:
    frames = [event(one) for one in documents]
    assert heard(*frames, DONE, part_bytes=part_bytes) == heard(*frames, DONE, part_bytes=10**6)
