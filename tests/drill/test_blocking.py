"""Prompts that a node admits and cannot place: which they are, and what they do to those behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drill.decode import DecodeEngine
from drill.engine import Sight
from drill.fabric import Fabric
from drill.options import plan_of, read_options
from drill.request import Bootstrap, Req
from drill.settings import NodeSettings, Role
from drill.unified import UnifiedEngine

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]
MakeNode = Callable[..., NodeSettings]

POOL, DECODE_POOL, PAGE, RESERVE = 640, 1280, 16, 32
#: Prompt, one new token and one page stay below the free pool (PrefillAdder of the engine).
LONGEST = POOL - 1 - PAGE - 1
#: Prompt and reserve fit into the free pool (decode's preallocation queue).
LONGEST_RESERVED = POOL - RESERVE
A_WHILE_S = 0.3


@pytest.fixture
def start(launch: Launch, make_pair: MakePair) -> Callable[..., Awaitable[Any]]:
    async def begin(prefill: int, decode: int, **more: Any) -> Any:  # noqa: ANN401
        figures = {"context": 1024, "page_size": PAGE, "reserved_decode_tokens": RESERVE}
        return await launch(make_pair(prefill, decode, **(figures | more)))

    return begin


async def _is_answered(rig: Any, length: int) -> bool:  # noqa: ANN401
    """Tell whether an answer comes within a while; a client that waits in vain leaves."""
    asked = asyncio.create_task(rig.generate("x" * length, 1))
    done, _ = await asyncio.wait([asked], timeout=A_WHILE_S)
    asked.cancel()
    return bool(done)


async def _is_behind_answered(rig: Any, length: int, queue: str, name: str) -> bool:  # noqa: ANN401
    """Tell whether a short prompt is answered behind one that stands at the head of a queue."""
    stuck = asyncio.create_task(rig.generate("x" * length, 1))
    await rig.until(name, queue)
    answered = await _is_answered(rig, 10)
    stuck.cancel()
    return answered


@pytest.mark.parametrize("version", ["0.5.19", "0.5.20", "0.5.23"])
async def test_prefill_computes_what_stays_a_page_below_its_pool(
    start: Launch, version: str
) -> None:
    rig = await start(POOL, DECODE_POOL, engine_version=version)
    assert await _is_answered(rig, LONGEST)
    assert not await _is_answered(rig, LONGEST + 1)


async def test_a_prompt_that_prefill_cannot_schedule_blocks_all_behind_it(start: Launch) -> None:
    rig = await start(POOL, DECODE_POOL)
    assert not await _is_behind_answered(rig, LONGEST + 1, "num_waiting_reqs", "prefill-1")
    # Its client has left, which frees the node.
    assert await _is_answered(rig, 10)
    assert (await rig.loads("prefill-1"))["num_waiting_reqs"] == 0


async def test_decode_gives_up_on_a_prompt_that_prefill_never_computes(start: Launch) -> None:
    rig = await start(POOL, DECODE_POOL, waiting_timeout_s=0.2)
    body = {"text": "x" * (LONGEST + 1), "bootstrap_port": 8991, "bootstrap_room": 7}
    legs = [
        asyncio.create_task(rig.ask("POST", name, "/generate", body))
        for name in ("prefill-1", "decode-1")
    ]
    answer = await legs[1]
    assert answer.status == 500
    assert "timed out after 0.2s in KVPoll.WaitingForInput" in answer.body["message"]
    assert not legs[0].done()
    legs[0].cancel()


async def test_decode_reserves_what_fits_beside_its_reserve(start: Launch) -> None:
    rig = await start(DECODE_POOL, POOL)
    assert await _is_answered(rig, LONGEST_RESERVED)
    assert not await _is_answered(rig, LONGEST_RESERVED + 1)
    blocked = "decode_prealloc_queue_reqs"
    assert not await _is_behind_answered(rig, LONGEST_RESERVED + 1, blocked, "decode-1")
    assert await _is_answered(rig, 10)


def test_every_request_under_way_keeps_its_reserve(make_pair: MakePair) -> None:
    """Decode keeps one reserve for each reservation and each running request, and one for the next.

    Source: SGLang 0.5.19 decode.py, pop_preallocated and _allocatable_token_budgets.
    """
    _, figures = make_pair(POOL, POOL, page_size=1, reserved_decode_tokens=RESERVE)
    held = (100, 200)
    fits = POOL - sum(held) - RESERVE * len(held) - RESERVE
    for length, is_reserved in ((fits, True), (fits + 1, False)):
        fabric = Fabric()
        fabric.bootstrap_ports.add(8991)
        engine = DecodeEngine(figures, sight=Sight(), clock=lambda: 0.0, fabric=fabric)
        for room, tokens in enumerate((*held, length)):
            engine.submit(
                Req(
                    rid=str(room),
                    serial=room + 1,
                    input_ids=[65] * tokens,
                    max_new_tokens=1,
                    bootstrap=Bootstrap(host="127.0.0.1", port=8991, room=room),
                )
            )
        engine.step()
        queues = engine.queue_lengths()
        assert queues["decode_transfer_queue_reqs"] == len(held) + is_reserved
        assert engine.is_blocked is not is_reserved


@pytest.mark.parametrize("name", ["prefill-1", "decode-1"])
async def test_a_blocked_node_says_so_on_health(
    start: Launch, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drill.node_http._HEALTH_TIMEOUT_S", 0.1)
    figures = (POOL, DECODE_POOL) if name == "prefill-1" else (DECODE_POOL, POOL)
    rig = await start(*figures)
    assert (await rig.get(name, "/health")).status == 200
    length = LONGEST + 1 if name == "prefill-1" else LONGEST_RESERVED + 1
    queue = "num_waiting_reqs" if name == "prefill-1" else "decode_prealloc_queue_reqs"
    stuck = asyncio.create_task(rig.generate("x" * length, 1))
    await rig.until(name, queue)
    assert (await rig.get(name, "/health")).status == 503
    stuck.cancel()


@pytest.mark.parametrize("new_tokens", [1, 50])
def test_a_unified_node_clips_new_tokens_and_keeps_a_page(
    make_node: MakeNode, new_tokens: int
) -> None:
    figures = make_node("u", Role.UNIFIED, POOL, context=1024, page_size=PAGE)
    longest = POOL - PAGE - 1
    for length, is_answered in ((longest, True), (longest + 1, False)):
        engine = UnifiedEngine(figures, sight=Sight(), clock=lambda: 0.0)
        req = Req(rid="r", serial=1, input_ids=[65] * length, max_new_tokens=new_tokens)
        engine.submit(req)
        while engine.step():
            pass
        assert req.finished() is is_answered
        assert engine.is_blocked is not is_answered


@pytest.mark.parametrize("scenario", ["september", "healthy", "equal-pools"])
def test_every_scenario_has_room_for_the_lengths_that_its_figures_promise(scenario: str) -> None:
    plan = plan_of(read_options(["--scenario", scenario]))
    for node in plan.nodes:
        kept = node.reserved_decode_tokens if node.role is Role.DECODE else 2 + node.page_size
        assert node.pool - kept > node.pool // 2
