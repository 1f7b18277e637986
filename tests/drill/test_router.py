"""The router: membership, keys, refusals, as sglang-router 0.3.2."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drill.settings import NodeSettings
from drill.workers import Breaker, Worker

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]


@pytest.fixture
async def rig(launch: Launch, make_pair: MakePair) -> Any:  # noqa: ANN401
    return await launch(make_pair(1024, 1024))


async def _workers(rig: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401
    answer = await rig.get("router", "/workers")
    return {one["worker_type"]: one for one in answer.body["workers"]}


async def test_workers_are_listed_in_the_routers_shape(rig: Any) -> None:  # noqa: ANN401
    answer = await rig.get("router", "/workers")
    assert answer.body["total"] == 2
    assert answer.body["stats"] == {"prefill_count": 1, "decode_count": 1, "regular_count": 0}
    workers = await _workers(rig)
    common = {
        *("id", "url", "model_id", "priority", "cost", "worker_type", "is_healthy", "load"),
        *("connection_mode", "metadata", "disable_health_check"),
    }
    assert set(workers["decode"]) == common
    assert set(workers["prefill"]) == common | {"bootstrap_port"}
    assert workers["prefill"]["bootstrap_port"] == 8991
    assert workers["prefill"]["url"] == rig.url("prefill-1")
    one = await rig.get("router", f"/workers/{workers['decode']['id']}")
    assert one.body == workers["decode"]


async def test_a_removed_worker_is_gone_and_can_come_back(rig: Any) -> None:  # noqa: ANN401
    old = (await _workers(rig))["prefill"]
    removed = await rig.ask("DELETE", "router", f"/workers/{old['id']}")
    assert removed.status == 202
    gone = await rig.get("router", f"/workers/{old['id']}")
    assert (gone.status, gone.body["code"]) == (404, "WORKER_NOT_FOUND")
    assert (await rig.get("router", "/readiness")).status == 503
    refused = await rig.generate("hi", 1)
    assert refused.status == 503
    assert refused.headers["x-smg-error-code"] == "server_selection_failed"
    body = {"url": old["url"], "worker_type": "prefill", "bootstrap_port": old["bootstrap_port"]}
    added = await rig.ask("POST", "router", "/workers", body)
    assert added.status == 202
    assert added.body["worker_id"] != old["id"]
    await _until_registered(rig, added.body["worker_id"])
    assert await rig.say("hello there", 5) == "hello"


async def _until_registered(rig: Any, worker_id: str) -> None:  # noqa: ANN401
    while True:
        worker = (await rig.get("router", f"/workers/{worker_id}")).body
        if "job_status" not in worker:
            assert worker["is_healthy"] is True
            return
        assert worker["job_status"]["status"] == "processing"
        assert worker["worker_type"] == "unknown"
        await asyncio.sleep(0)


async def test_a_request_in_flight_survives_the_removal(
    launch: Launch, make_pair: MakePair
) -> None:
    rig = await launch(make_pair(1024, 1024), token_s=0.002)
    task = asyncio.create_task(rig.say("hello there", 60))
    await rig.until("decode-1", "num_running_reqs")
    for worker in (await _workers(rig)).values():
        await rig.ask("DELETE", "router", f"/workers/{worker['id']}")
    assert (await rig.get("router", "/workers")).body["total"] == 0
    assert (await rig.loads("decode-1"))["num_running_reqs"] == 1
    assert len(await task) == 60


async def test_a_known_url_is_not_added_twice(rig: Any) -> None:  # noqa: ANN401
    old = (await _workers(rig))["decode"]
    body = {"url": old["url"], "worker_type": "decode"}
    again = await rig.ask("POST", "router", "/workers", body)
    assert (again.status, again.body["worker_id"]) == (202, old["id"])


async def test_an_unreachable_worker_stays_in_processing(rig: Any) -> None:  # noqa: ANN401
    body = {"url": "http://127.0.0.1:9", "worker_type": "decode"}
    added = await rig.ask("POST", "router", "/workers", body)
    worker = (await rig.get("router", added.body["location"])).body
    assert worker["job_status"]["status"] == "processing"
    assert worker["is_healthy"] is False
    assert await rig.say("hello there", 5) == "hello"


async def test_worker_ids_must_be_uuids(rig: Any) -> None:  # noqa: ANN401
    bad = await rig.get("router", "/workers/http%3A%2F%2F127.0.0.1")
    assert (bad.status, bad.body["code"]) == (400, "BAD_REQUEST")
    assert (await rig.get("router", f"/workers/{uuid.uuid4()}")).status == 404


@pytest.mark.parametrize("key", [None, "wrong"])
async def test_inference_needs_a_tenants_key(rig: Any, key: str | None) -> None:  # noqa: ANN401
    for path in ("/generate", "/v1/completions"):
        answer = await rig.ask("POST", "router", path, {"text": "hi"}, key)
        assert (answer.status, answer.body) == (401, "")


async def test_a_router_key_closes_the_control_plane(launch: Launch, make_pair: MakePair) -> None:
    rig = await launch(make_pair(1024, 1024), router_key="of-the-router")
    assert (await rig.get("router", "/workers")).status == 401
    opened = await rig.ask("GET", "router", "/workers", None, "of-the-router")
    assert opened.status == 200
    assert (await rig.get("router", "/health")).body == "OK"


@pytest.mark.parametrize(
    "path", ["/server_info", "/model_info", "/metrics", "/v1/loads", "/get_load", "/list_workers"]
)
async def test_the_router_has_no_engine_routes(rig: Any, path: str) -> None:  # noqa: ANN401
    answer = await rig.get("router", path)
    assert (answer.status, answer.body) == (404, "")


async def test_the_routers_own_pages(rig: Any) -> None:  # noqa: ANN401
    info = await rig.get("router", "/get_server_info")
    assert info.body == {"router_manager": True, "routers_count": 1, "workers_count": 2}
    assert info.headers["content-type"].startswith("text/plain")
    models = (await rig.get("router", "/v1/models")).body
    card = {"id": "drill-model", "object": "model", "owned_by": "local"}
    assert models == {"object": "list", "data": [card]}
    ready = (await rig.get("router", "/readiness")).body
    assert ready == {"status": "ready", "healthy_workers": 2, "total_workers": 2}
    assert (await rig.get("router", "/get_model_info")).body["model_path"] == "drill-model"
    assert {one["load"] for one in (await rig.get("router", "/get_loads")).body["workers"]} == {0}
    flushed = await rig.ask("POST", "router", "/flush_cache")
    assert flushed.body["workers_flushed"] == 2


async def test_token_arrays_are_no_prompts_at_the_router(rig: Any) -> None:  # noqa: ANN401
    body = {"model": "m", "prompt": [1, 2, 3]}
    answer = await rig.ask("POST", "router", "/v1/completions", body, "key-of-b")
    assert answer.status == 422


async def test_a_clients_own_room_is_overridden(rig: Any) -> None:  # noqa: ANN401
    answer = await rig.generate("hello there", 5, bootstrap_room=7, bootstrap_port=1)
    assert (answer.status, answer.body["text"]) == (200, "hello")


async def test_workers_take_turns(launch: Launch, make_pair: MakePair) -> None:
    prefill, decode = make_pair(1024, 1024)
    second = decode.with_changes(name="decode-2")
    rig = await launch([prefill, decode, second])
    for _ in range(4):
        await rig.say("hello there", 5)
    counts = [rig.cluster.nodes[name].engine.books.counts for name in ("decode-1", "decode-2")]
    assert [count["requests"] for count in counts] == [2, 2]


async def test_a_request_id_of_the_client_comes_back(rig: Any) -> None:  # noqa: ANN401
    body = {"text": "hi", "sampling_params": {"max_new_tokens": 1}}
    headers = {"Authorization": "Bearer key-of-b", "X-Request-ID": "mine"}
    url = rig.url("router") + "/generate"
    async with rig.session.post(url, json=body, headers=headers) as reply:
        assert reply.headers["x-request-id"] == "mine"


async def test_a_node_with_a_key_is_reached_with_the_workers_key(
    launch: Launch, make_pair: MakePair
) -> None:
    rig = await launch(make_pair(1024, 1024, api_key="of-the-node"))
    assert (await rig.get("decode-1", "/server_info")).status == 401
    assert (await rig.get("decode-1", "/health")).status == 200
    info = await rig.ask("GET", "decode-1", "/server_info", None, "of-the-node")
    assert info.body["api_key"] == "of-the-node"
    assert await rig.say("hello there", 5) == "hello"


async def test_the_router_waits_for_both_legs_and_gives_up_after_five_tries(
    launch: Launch, make_pair: MakePair
) -> None:
    rig = await launch(make_pair(1024, 1024, bootstrap_timeout_s=0.05))
    await rig.cluster.node_ports["decode-1"].close()
    answer = await rig.generate("hi", 1)
    assert (answer.status, answer.body["error"]["code"]) == (502, "decode_server_error")
    counts = rig.cluster.nodes["prefill-1"].engine.books.counts
    assert counts["bootstrap_failed"] == 5


def test_a_breaker_opens_after_ten_failures_and_closes_after_three_successes() -> None:
    moments = [0.0]
    breaker = Breaker(clock=lambda: moments[-1])

    def after(now: float, outcomes: list[bool]) -> bool:
        moments.append(now)
        for is_success in outcomes:
            breaker.note(is_success=is_success)
        return breaker.lets_through

    steps = [
        (0.0, [False] * 9),  # nine failures: closed
        (0.0, [False]),  # the tenth opens it
        (59.0, []),
        (60.0, []),  # half open
        (60.0, [False]),  # a failure opens it again
        (120.0, [True, True]),
        (120.0, [True]),  # the third success closes it
        (121.0, [False]),
    ]
    lets_through = [after(now, outcomes) for now, outcomes in steps]
    assert lets_through == [True, False, False, True, False, True, True, True]


async def test_three_bad_checks_drop_a_worker_and_two_good_ones_bring_it_back() -> None:
    worker = Worker(url="http://127.0.0.1:9", wanted_type="decode")
    worker.register({}, "decode")
    outcomes = []
    for is_good in (False, False, False, True, True):
        worker.note_check(is_good=is_good)
        outcomes.append(worker.is_healthy)
    assert outcomes == [True, True, False, False, True]
