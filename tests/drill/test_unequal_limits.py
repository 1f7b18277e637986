"""Fixed versions with unequal limits: prefill refuses at once, decode waits and is asked again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drill.settings import NodeSettings

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]

SMALL, LARGE, LENGTH = 512, 1024, 700
WAIT_S = 0.2
#: The router's tries. Source: sglang-router 0.3.2; 100.451 s for a time-out of 20 s were recorded.
TRIES = 5


@pytest.fixture(params=["0.5.20", "0.5.22", "0.5.23"])
async def rig(request: pytest.FixtureRequest, launch: Launch, make_pair: MakePair) -> Any:  # noqa: ANN401
    figures = {"engine_version": request.param, "context": 2048, "waiting_timeout_s": WAIT_S}
    return await launch(make_pair(SMALL, LARGE, **figures))


async def _count(rig: Any, node: str, counter: str) -> float:  # noqa: ANN401
    found = re.search(
        rf"^sglang:{counter}{{.*}} (\S+)$", (await rig.get(node, "/metrics")).body, re.MULTILINE
    )
    assert found is not None
    return float(found[1])


async def test_prefill_refuses_at_once_and_decode_holds_on(rig: Any) -> None:  # noqa: ANN401
    body = {"text": "x" * LENGTH, "bootstrap_port": 8991, "bootstrap_room": 3}
    decode = asyncio.create_task(rig.ask("POST", "decode-1", "/generate", body))
    started = asyncio.get_running_loop().time()
    refused = await rig.ask("POST", "prefill-1", "/generate", body)
    assert refused.status == 400
    assert f"({LENGTH} tokens)" in refused.body["error"]["message"]
    assert asyncio.get_running_loop().time() - started < WAIT_S
    await rig.until("decode-1", "decode_transfer_queue_reqs")
    assert (await rig.loads("decode-1"))["num_used_tokens"] == LENGTH
    assert (await decode).status == 500
    assert asyncio.get_running_loop().time() - started >= WAIT_S
    assert (await rig.loads("decode-1"))["num_used_tokens"] == 0


async def test_a_whole_answer_comes_after_all_tries(rig: Any) -> None:  # noqa: ANN401
    started = asyncio.get_running_loop().time()
    answer = await rig.generate("x" * LENGTH, 1)
    assert (answer.status, answer.body["error"]["code"]) == (500, "decode_internal_error")
    assert asyncio.get_running_loop().time() - started >= TRIES * WAIT_S
    assert await _count(rig, "decode-1", "num_transfer_failed_reqs_total") == TRIES


async def test_a_stream_tells_the_error_after_one_wait(rig: Any) -> None:  # noqa: ANN401
    answer = await rig.generate("x" * LENGTH, 1, stream=True)
    events = [one.removeprefix("data: ") for one in answer.body.split("\n\n") if one]
    assert (answer.status, events[1:]) == (200, ["[DONE]"])
    meta = json.loads(events[0])["meta_info"]
    assert (meta["finish_reason"]["type"], meta["finish_reason"]["status_code"]) == ("abort", 500)
    assert meta["prompt_tokens"] == LENGTH
    assert await _count(rig, "decode-1", "num_transfer_failed_reqs_total") == 1


async def test_others_are_answered_while_decode_holds_on(rig: Any) -> None:  # noqa: ANN401
    waiting = asyncio.create_task(rig.generate("x" * LENGTH, 1))
    await rig.until("decode-1", "decode_transfer_queue_reqs")
    assert await rig.say("hello there", 5) == "hello"
    assert not waiting.done()
    waiting.cancel()


async def test_held_reservations_leave_no_room_for_others(rig: Any) -> None:  # noqa: ANN401
    """A second prompt of that size finds no room beside the first: the capacity runs out."""
    waiting = asyncio.create_task(rig.generate("x" * LENGTH, 1))
    await rig.until("decode-1", "decode_transfer_queue_reqs")
    behind = asyncio.create_task(rig.generate("y" * (SMALL - 100), 1))
    await rig.until("decode-1", "decode_prealloc_queue_reqs")
    assert not behind.done()
    waiting.cancel()
    assert (await behind).status == 200
