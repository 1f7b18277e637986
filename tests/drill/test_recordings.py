"""The drill held against reality: recorded answers of SGLang, replayed by length."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from drill.settings import NodeSettings, Role

DATA = Path(__file__).parents[1] / "data" / "sglang" / "recordings.jsonl"
ROWS = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
CONTEXT = 4096
RESERVE = 16
NEW_TOKENS = 8
SHORT_WAIT_S = 0.1
"""Stands for the 20 s of the recorded lane, whose five tries would take 100 s."""


def _nodes(row: dict[str, Any], make_node: Callable[..., NodeSettings]) -> list[NodeSettings]:
    version = row["engine_version"]
    if row["unified_pool"] is not None:
        return [make_node("u", Role.UNIFIED, row["unified_pool"], engine_version=version)]
    wait_s = SHORT_WAIT_S if row["waiting_timeout_s"] < 300 else row["waiting_timeout_s"]
    figures = {"engine_version": version, "reserved_decode_tokens": RESERVE}
    return [
        make_node("p", Role.PREFILL, row["prefill_pool"], bootstrap_port=8991, **figures),
        make_node("d", Role.DECODE, row["decode_pool"], waiting_timeout_s=wait_s, **figures),
    ]


def _body(row: dict[str, Any]) -> dict[str, Any]:
    length, is_streamed = row["tokens"], row.get("is_streamed", False)
    if row["path"] == "/generate":
        params = {"max_new_tokens": NEW_TOKENS, "temperature": 0}
        ids = [7 + 7 * at % 480 for at in range(length)]
        return {"input_ids": ids, "sampling_params": params, "stream": is_streamed}
    return {"model": "m", "prompt": "t" * length, "max_tokens": NEW_TOKENS, "temperature": 0}


def _essence(body: dict[str, Any]) -> dict[str, Any]:
    """Answer what must be equal: finish reason, counts and error; ids and clock left out."""
    if "meta_info" in body:
        meta = body["meta_info"]
        kept = ("finish_reason", "prompt_tokens", "completion_tokens")
        essence = {name: meta[name] for name in kept}
    elif "usage" in body:
        essence = {"finish": body["choices"][0]["finish_reason"], "usage": body["usage"]}
    else:
        essence = body
    text = re.sub(r"rid='\w+'", "rid=R", json.dumps(essence, sort_keys=True))
    text = re.sub(r"(room=|Request )\d{3,}", r"\1N", text)
    return dict(json.loads(re.sub(r"timed out after [\d.]+s", "timed out after Ts", text)))


def _last_event(text: str) -> dict[str, Any]:
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    return dict(json.loads(events[-2]))


@pytest.mark.parametrize("row", ROWS, ids=[row["source"] for row in ROWS])
async def test_every_recording_is_answered_alike(
    row: dict[str, Any],
    launch: Callable[..., Awaitable[Any]],
    make_node: Callable[..., NodeSettings],
) -> None:
    rig = await launch(_nodes(row, make_node))
    target = "u" if row["unified_pool"] is not None else "router"
    answer = await rig.ask("POST", target, row["path"], _body(row), "key-of-b")
    body = _last_event(answer.body) if row.get("is_streamed") else answer.body
    assert answer.status == row["status"]
    assert _essence(body) == _essence(row["body"])
    if answer.status != 200 and target == "router":
        assert answer.headers["x-smg-error-code"] == row["body"]["error"]["code"]


def test_the_recordings_cover_every_lane_and_verdict() -> None:
    assert {row["engine_version"] for row in ROWS} == {"0.5.19", "0.5.22", "0.5.23"}
    assert {row["status"] for row in ROWS} == {200, 400, 500}
    leaked = [row for row in ROWS if row["prefill_pool"] == 1024 and row["decode_pool"] == 4096]
    assert any(row["status"] == 200 and row["tokens"] > 1018 for row in leaked)
