"""The scenarios as a client sees them: over HTTP, through the router or its gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drill.options import plan_of, read_options
from drill.settings import WrongFigure
from tests.drill.conftest import TENANT_A, TENANT_B
from tests.drill.rehearsal import prompt_of

Launch = Callable[..., Awaitable[Any]]

#: Long enough to be met by a test on a busy machine.
TRANSFER_S = 1.0
WAITING = "decode_transfer_queue_reqs"
P, Q = prompt_of("ALPHA-1", 4_000), prompt_of("BRAVO-2", 4_000)


@pytest.fixture
def play(launch: Launch) -> Launch:
    """Launch a scenario by its command line."""

    async def start(scenario: str, *arguments: str, **figures: float) -> Any:  # noqa: ANN401
        argv = ["--scenario", scenario, "--base-port", "0", *arguments]
        plan = plan_of(read_options(argv), environ={})
        return await launch(
            [one.with_changes(**figures) for one in plan.nodes],
            scenario=scenario,
            switches=plan.switches,
            has_gateway=plan.has_gateway,
        )

    return start


async def leave(rig: Any) -> None:  # noqa: ANN401
    """Ask and leave while the transfer is under way."""
    asked = asyncio.create_task(rig.generate(P, 4, tenant=TENANT_A))
    await rig.until("prefill-1", "prefill_inflight_queue_reqs")
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    while (await rig.loads("decode-1"))["disaggregation"][WAITING]:  # noqa: ASYNC110 over HTTP
        await asyncio.sleep(0.01)


async def last_kinds(rig: Any, node: str) -> set[str]:  # noqa: ANN401
    body = (await rig.get("control", f"/nodes/{node}/trace")).body
    return {slot["kind"] for slot in body["answers"][-1]["slots"]}


async def test_an_aborted_transfer_is_read_by_another_tenant(play: Launch) -> None:
    rig = await play("late-write", transfer_s=TRANSFER_S)
    await leave(rig)
    assert "ALPHA-1" in await rig.say(Q, 30, tenant=TENANT_B)
    assert await last_kinds(rig, "decode-1") == {"foreign"}
    switched = await rig.ask("POST", "control", "/guards", {"page-tags": True})
    assert "page-tags" in switched.body["guards"]
    assert switched.body["switched"] == {"page-tags": True}
    await leave(rig)
    # The node refuses the first try; the router sends again, to pages that nobody writes any more.
    assert "BRAVO-2" in await rig.say(Q, 30, tenant=TENANT_B)
    assert await last_kinds(rig, "decode-1") == {"own"}
    log = (await rig.get("control", "/nodes/decode-1/log?last=50")).body["lines"]
    assert any("KV page tag mismatch" in line for line in log)


async def test_the_pages_are_counted_while_they_are_held(play: Launch) -> None:
    rig = await play("late-write", "--engine-version", "0.5.22", transfer_s=TRANSFER_S)
    await leave(rig)
    assert (await rig.loads("decode-1"))["num_used_tokens"] > 4_000
    assert await gauge(rig, "decode-1", "num_decode_deferred_kv_release_reqs") == 1
    assert (await rig.ask("POST", "decode-1", "/flush_cache")).status == 400
    async with asyncio.timeout(5):
        while (await rig.loads("decode-1"))["num_used_tokens"]:  # noqa: ASYNC110 over HTTP
            await asyncio.sleep(0.02)
    assert await gauge(rig, "decode-1", "decode_deferred_kv_release_total") == 1
    assert "BRAVO-2" in await rig.say(Q, 30)


async def gauge(rig: Any, node: str, name: str) -> float:  # noqa: ANN401
    text = (await rig.get(node, "/metrics")).body
    found = re.search(rf"^sglang:{name}{{.*}} (\S+)$", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


async def complete(rig: Any, tenant: Any, salt: str) -> Any:  # noqa: ANN401
    body = {"model": "drill-model", "prompt": P, "max_tokens": 2, "cache_salt": salt}
    return (await rig.ask("POST", "router", "/v1/completions", body, tenant.api_key)).body


async def test_usage_and_counters_tell_of_a_hit(play: Launch) -> None:
    rig = await play("salt-ignored", "--prefill-speed", "0")
    bodies = [await complete(rig, TENANT_A, "one"), await complete(rig, TENANT_B, "two")]
    cached = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in bodies]
    assert cached == [0, 3_968]
    answer = await rig.generate(P, 1, cache_salt="three", extra_key="four")
    meta = answer.body["meta_info"]
    assert (meta["cached_tokens"], meta["cached_tokens_details"]) == (
        3_968,
        {"device": 3_968, "host": 0},
    )
    assert await gauge(rig, "prefill-1", "cached_tokens_total") == 2 * 3_968
    assert await gauge(rig, "prefill-1", "kv_evictable_tokens") == 3_968
    assert (await rig.loads("prefill-1"))["num_used_tokens"] == 0
    assert await last_kinds(rig, "prefill-1") == {"foreign", "own"}
    await rig.ask("POST", "prefill-1", "/flush_cache")
    assert (await complete(rig, TENANT_A, "one"))["usage"]["prompt_tokens_details"] == {
        "cached_tokens": 0
    }
    again = await complete(rig, TENANT_A, "one")
    assert again["usage"]["prompt_tokens_details"] == {"cached_tokens": 3_968}
    assert await last_kinds(rig, "prefill-1") == {"shared", "own"}


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_the_gateway_answers_another_tenant_from_its_cache(
    play: Launch, *, is_streamed: bool
) -> None:
    rig = await play("gateway-cache")
    body = {"model": "drill-model", "prompt": P, "max_tokens": 4, "stream": is_streamed}

    async def ask(tenant: Any) -> Any:  # noqa: ANN401
        return await rig.ask("POST", "router", "/v1/completions", body, tenant.api_key)

    first, second = await ask(TENANT_A), await ask(TENANT_B)
    assert (first.headers["x-cache"], second.headers["x-cache"]) == ("MISS", "HIT")
    assert first.body == second.body
    assert first.headers["Content-Type"] == second.headers["Content-Type"]
    assert (await rig.get("control", "/gateway")).body["hits"][-1]["is_foreign"] is True
    await rig.ask("POST", "control", "/guards", {"tenant-key": True})
    third, fourth = await ask(TENANT_B), await ask(TENANT_B)
    assert (third.headers["x-cache"], fourth.headers["x-cache"]) == ("MISS", "HIT")
    assert third.body != first.body
    assert fourth.body == third.body
    assert (await rig.get("control", "/gateway")).body["hits"][-1]["is_foreign"] is False


async def test_the_gateway_keeps_no_errors_and_answers_no_stranger(play: Launch) -> None:
    rig = await play("gateway-cache")
    body = {"input_ids": [1] * 20_000, "sampling_params": {"max_new_tokens": 1}}
    for _ in range(2):
        refused = await rig.ask("POST", "router", "/generate", body, TENANT_A.api_key)
        assert (refused.status, refused.headers["x-cache"]) == (400, "MISS")
    await rig.generate("x", 1)
    stranger = await rig.ask("POST", "router", "/generate", {"text": "x"}, "no-key")
    assert stranger.status == 401
    assert (await rig.get("router", "/workers")).body["total"] == 2


async def test_another_scenario_has_no_gateway(play: Launch) -> None:
    rig = await play("healthy")
    assert "x-cache" not in (await rig.generate("x", 1)).headers
    assert (await rig.get("control", "/gateway")).body == {"hits": []}


async def test_one_node_of_two_is_late_and_right(play: Launch) -> None:
    rig = await play("slow-node")
    loop = asyncio.get_running_loop()
    took = []
    for _ in range(2):
        started = loop.time()
        assert "BRAVO-2" in await rig.say(Q[:200], 20)
        took.append(loop.time() - started)
    assert max(took) >= 1.5
    assert min(took) < 1.0
    for node in ("decode-1", "decode-2"):
        assert await last_kinds(rig, node) == {"own"}
    cured = {"prefill_speed": 0, "transfer_s": 0}
    assert (await rig.ask("POST", "control", "/nodes/prefill-2/restart", cured)).status == 200


@pytest.mark.parametrize(
    ("scenario", "flags"),
    [
        ("page-lifetime", {"enable_hierarchical_cache": True, "hicache_storage_backend": None}),
        ("disk-tier", {"enable_hierarchical_cache": True, "hicache_storage_backend": "file"}),
        ("healthy", {"enable_hierarchical_cache": False, "hicache_storage_backend": None}),
    ],
)
async def test_a_node_shows_its_tiers(play: Launch, scenario: str, flags: dict[str, Any]) -> None:
    rig = await play(scenario)
    info = (await rig.get("prefill-1", "/server_info")).body
    assert {name: info[name] for name in flags} == flags


async def test_a_node_shows_the_checksum_and_what_was_switched(play: Launch) -> None:
    arguments = ("--guard", "checksum", "--no-guard", "deferred-release")
    rig = await play("healthy", *arguments)
    info = (await rig.get("decode-1", "/server_info")).body
    assert info["disaggregation_enable_kv_checksum"] is True
    exposed = info["internal_states"][0]["env_vars"]
    assert exposed["SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE"] == "0"
    assert "BRAVO-2" in await rig.say(Q, 30)
    state = (await rig.get("control", "/state")).body
    assert "checksum" in state["guards"]
    assert "deferred-release" not in state["guards"]
    assert state["nodes"][0]["guards"] == state["guards"]


@pytest.mark.parametrize(
    ("body", "said"),
    [({"moat": True}, "unknown field moat"), ({"door": "yes"}, "must be of type bool")],
)
async def test_the_control_endpoint_refuses_what_is_no_guard(
    play: Launch, body: object, said: str
) -> None:
    rig = await play("healthy")
    answer = await rig.ask("POST", "control", "/guards", body)
    assert answer.status == 400
    assert said in answer.body["error"]


def test_a_guard_is_not_asked_for_and_left_out() -> None:
    options = read_options(["--guard", "door", "--no-guard", "door"])
    with pytest.raises(WrongFigure, match="guard door is asked for and asked to be left out"):
        plan_of(options)
