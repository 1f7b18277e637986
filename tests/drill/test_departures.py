"""A client that leaves: which legs the router gives up, what the engines then count and hold."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drill.departures import Aborts
from drill.options import plan_of, read_options
from drill.settings import NodeSettings, WrongFigure

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]

LENGTH = 500
#: The prompt takes half a second to compute, and its client leaves while it is computed.
SPEED = 1_000.0


async def count(rig: Any, node: str, counter: str) -> float:  # noqa: ANN401
    text = (await rig.get(node, "/metrics")).body
    found = re.search(rf"^sglang:{counter}{{.*}} (\S+)$", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


async def until_idle(rig: Any, node: str) -> None:  # noqa: ANN401
    async with asyncio.timeout(5):
        while (await rig.loads(node))["num_used_tokens"]:  # noqa: ASYNC110 over HTTP
            await asyncio.sleep(0.01)


async def leave(rig: Any, *, new_tokens: int = 1) -> None:  # noqa: ANN401
    """Send a prompt and leave while prefill computes it."""
    asked = asyncio.create_task(rig.generate("x" * LENGTH, new_tokens))
    await rig.until("prefill-1", "num_running_reqs")
    assert (await rig.loads("prefill-1"))["num_used_tokens"] == LENGTH
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)


async def test_a_prompt_takes_the_time_that_its_length_needs(
    launch: Launch, make_pair: MakePair
) -> None:
    rig = await launch(make_pair(1024, 1024, prefill_speed=SPEED))
    loop = asyncio.get_running_loop()
    started = loop.time()
    answer = await rig.generate("x" * 300, 1)
    assert answer.status == 200
    assert loop.time() - started >= 0.3


@pytest.mark.parametrize(
    ("aborts", "prefill", "decode"),
    [
        (Aborts.BOTH, 1, 1),
        (Aborts.NONE, 0, 0),
        (Aborts.PREFILL, 1, 0),
        (Aborts.DECODE, 0, 1),
    ],
)
async def test_the_router_gives_up_the_legs_that_it_is_told_to(
    launch: Launch, make_pair: MakePair, aborts: Aborts, prefill: int, decode: int
) -> None:
    nodes = make_pair(1024, 1024, prefill_speed=SPEED, waiting_timeout_s=0.8)
    rig = await launch(nodes, router_aborts=aborts)
    await leave(rig)
    await asyncio.gather(until_idle(rig, "prefill-1"), until_idle(rig, "decode-1"))
    assert await count(rig, "prefill-1", "num_aborted_requests_total") == prefill
    assert await count(rig, "decode-1", "num_aborted_requests_total") == decode
    # What prefill was not told to give up it computes to its first token.
    made = await count(rig, "prefill-1", "generation_tokens_total")
    assert made == 1 - prefill


async def test_a_leg_that_is_not_told_holds_its_pages_until_its_time_out(
    launch: Launch, make_pair: MakePair
) -> None:
    nodes = make_pair(1024, 1024, prefill_speed=SPEED, waiting_timeout_s=60.0)
    rig = await launch(nodes, router_aborts=Aborts.PREFILL)
    await leave(rig)
    await until_idle(rig, "prefill-1")
    assert (await rig.loads("decode-1"))["num_used_tokens"] == LENGTH


async def test_decode_is_given_up_once_the_first_token_is_there(
    launch: Launch, make_pair: MakePair
) -> None:
    nodes = make_pair(1024, 1024, prefill_speed=SPEED)
    rig = await launch(nodes, router_aborts=Aborts.FIRST_TOKEN, token_s=0.02)
    await leave(rig, new_tokens=400)
    await asyncio.gather(until_idle(rig, "prefill-1"), until_idle(rig, "decode-1"))
    assert await count(rig, "prefill-1", "num_aborted_requests_total") == 0
    assert await count(rig, "prefill-1", "generation_tokens_total") == 1
    assert await count(rig, "decode-1", "num_aborted_requests_total") == 1
    assert 0 < await count(rig, "decode-1", "generation_tokens_total") < 400


async def test_nothing_is_written_for_a_request_that_decode_gave_up(
    launch: Launch, make_pair: MakePair
) -> None:
    nodes = make_pair(1024, 1024, prefill_speed=SPEED)
    rig = await launch(nodes, router_aborts=Aborts.DECODE)
    await leave(rig)
    await until_idle(rig, "prefill-1")
    assert await count(rig, "prefill-1", "num_bootstrap_failed_reqs_total") == 1
    pool = rig.cluster.nodes["decode-1"].engine.pool
    assert set(pool.writers_of(range(pool.capacity))) == {-1}


async def test_the_control_endpoint_switches_the_router(
    launch: Launch, make_pair: MakePair
) -> None:
    rig = await launch(make_pair(1024, 1024))
    assert (await rig.get("control", "/")).body["router_aborts"] == "both"
    answer = await rig.ask("POST", "control", "/router", {"aborts": "first-token"})
    assert (answer.status, answer.body["router_aborts"]) == (200, "first-token")
    refused = await rig.ask("POST", "control", "/router", {"aborts": "some"})
    assert refused.status == 400
    assert "first-token" in refused.body["error"]


def test_the_command_line_takes_speed_and_aborts() -> None:
    plan = plan_of(read_options(["--prefill-speed", "250", "--router-aborts", "none"]))
    assert {one.prefill_speed for one in plan.nodes} == {250.0}
    assert plan.router_aborts is Aborts.NONE
    with pytest.raises(WrongFigure, match="speed"):
        plan_of(read_options(["--prefill-speed", "-1"]))
    with pytest.raises(WrongFigure, match="speed"):
        plan_of(read_options(["--prefill-speed", "nan"]))
