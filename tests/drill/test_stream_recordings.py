"""The drill held against reality: recorded streams and chats of SGLang, and rows that hung."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from drill.settings import NodeSettings, Role

Launch = Callable[..., Awaitable[Any]]
MakeNode = Callable[..., NodeSettings]

DATA = Path(__file__).parents[1] / "data" / "sglang"
RESERVE, NEW_TOKENS = 16, 8
#: One token for the message's role, one for the answer's: the template of the recorded model.
CHAT_OVERHEAD = 2
SHORT_WAIT_S = 0.1
"""Stands for the 20 s and 300 s that decode waited in the recordings."""


def _read(name: str) -> list[dict[str, Any]]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


ROWS = _read("streams_and_chats.jsonl")
HUNG = _read("hung.jsonl")


def _nodes(row: dict[str, Any], wait_s: float, make_node: MakeNode) -> list[NodeSettings]:
    figures = {
        "engine_version": row["engine_version"],
        "reserved_decode_tokens": RESERVE,
        "waiting_timeout_s": wait_s,
    }
    if row["unified_pool"] is not None:
        return [make_node("u", Role.UNIFIED, row["unified_pool"], **figures)]
    return [
        make_node("p", Role.PREFILL, row["prefill_pool"], bootstrap_port=8991, **figures),
        make_node("d", Role.DECODE, row["decode_pool"], **figures),
    ]


def _body(path: str, length: int, *, is_streamed: bool) -> dict[str, Any]:
    if path == "/generate":
        params = {"max_new_tokens": NEW_TOKENS, "temperature": 0}
        ids = [65 + at % 26 for at in range(length)]
        return {"input_ids": ids, "sampling_params": params, "stream": is_streamed}
    common = {"model": "m", "max_tokens": NEW_TOKENS, "temperature": 0}
    if is_streamed:
        common |= {"stream": True, "stream_options": {"include_usage": True}}
    if path == "/v1/completions":
        return {**common, "prompt": "t" * length}
    return {**common, "messages": [{"role": "user", "content": "t" * (length - CHAT_OVERHEAD)}]}


def _same(text: str) -> str:
    """Answer a text without ids and clock."""
    text = re.sub(r"rid='\w+'", "rid=R", text)
    text = re.sub(r"(room=|Request )\d{3,}", r"\1N", text)
    return re.sub(r"timed out after [\d.]+s", "timed out after Ts", text)


def _choice(choice: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {name: choice[name] for name in ("finish_reason", "matched_stop")}
    for part in {"delta", "message"} & choice.keys():
        fields = choice[part].items()
        kept[part] = {name: "T" if name == "content" and text else text for name, text in fields}
    return kept


def _essence(body: dict[str, Any]) -> Any:  # noqa: ANN401
    """Answer what must be equal of a body: all but ids, clock and the words of a model."""
    if "meta_info" in body:
        meta = body["meta_info"]
        finish = meta["finish_reason"]
        body = {
            "finish_reason": finish,
            "prompt_tokens": meta["prompt_tokens"],
            "completion_tokens": meta["completion_tokens"] if finish else None,
        }
    elif "choices" in body:
        body = {
            "object": body["object"],
            "usage": body.get("usage", "absent"),
            "choices": [_choice(choice) for choice in body["choices"]],
        }
    return json.loads(_same(json.dumps(body)))


def _reduced(body: Any) -> Any:  # noqa: ANN401
    """Answer the essence of an answer; of a stream each event's, equal neighbours once."""
    if not isinstance(body, str):
        return _essence(body)
    if "\n\n" not in body:
        return _same(body)
    events: list[Any] = []
    for block in filter(None, body.split("\n\n")):
        said = block.removeprefix("data: ")
        event = said if said == "[DONE]" else _essence(json.loads(said))
        if events[-1:] != [event]:
            events.append(event)
    return events


@pytest.mark.parametrize("row", ROWS, ids=[row["source"] for row in ROWS])
async def test_every_recorded_stream_and_chat_is_answered_alike(
    row: dict[str, Any], launch: Launch, make_node: MakeNode
) -> None:
    is_waited_out = "timed out after" in json.dumps(row["answer"])
    wait_s = SHORT_WAIT_S if is_waited_out else row["waiting_timeout_s"]
    rig = await launch(_nodes(row, wait_s, make_node))
    target = "u" if row["unified_pool"] is not None else "router"
    body = _body(row["path"], row["tokens"], is_streamed=row["is_streamed"])
    started = asyncio.get_running_loop().time()
    answer = await rig.ask("POST", target, row["path"], body, "key-of-b")
    took_s = asyncio.get_running_loop().time() - started
    assert answer.status == row["status"]
    assert _reduced(answer.body) == row["answer"]
    assert (took_s >= SHORT_WAIT_S) or not is_waited_out
    if row["content_type"] is not None:
        assert answer.headers["Content-Type"] == row["content_type"]


@pytest.mark.parametrize("probe", HUNG, ids=[probe["source"] for probe in HUNG])
async def test_what_hung_in_a_recorded_series_hangs_and_the_rest_is_answered(
    probe: dict[str, Any], launch: Launch, make_node: MakeNode
) -> None:
    scale = SHORT_WAIT_S / 20
    wait_s, cut_s = probe["waiting_timeout_s"] * scale, probe["cut_s"] * scale
    rig = await launch(_nodes(probe, wait_s, make_node))
    for row in probe["rows"]:
        body = _body("/generate", row["tokens"], is_streamed=False)
        asked = asyncio.create_task(rig.ask("POST", "router", "/generate", body, "key-of-b"))
        await asyncio.wait([asked], timeout=cut_s)
        assert asked.done() is not row["is_hung"], row
        if row["is_hung"]:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            continue
        assert asked.result().status == row["status"]


def test_the_recordings_hold_every_route_version_and_kind_of_end() -> None:
    streams = [row for row in ROWS if row["is_streamed"]]
    chats = [row for row in ROWS if row["path"] == "/v1/chat/completions"]
    assert {row["path"] for row in streams} == {
        "/generate",
        "/v1/completions",
        "/v1/chat/completions",
    }
    assert {row["engine_version"] for row in chats} == {"0.5.19", "0.5.22", "0.5.23"}
    said = json.dumps(ROWS)
    for end in ('"status_code": 400', '"status_code": 500', '"code": 400', '"code": 500', "[DONE]"):
        assert end in said
    assert any(row["is_hung"] for probe in HUNG for row in probe["rows"])
