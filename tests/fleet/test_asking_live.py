"""Rules of asking live nodes."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from common.registry import load_plugins
from fleet.captures import Capture, dump_capture, parse_capture
from fleet.client import OutboundClient
from fleet.contract import ENGINES
from fleet.live import NodeAddress, capture_fleet, capture_node
from fleet.reading import Reading, Role
from tests.fleet.sglang_answers import info, models, planted
from tests.fleet.wire import BAD_ANSWERS, SECRET, Handler, client_of, serving

load_plugins("fleet.engines")
NODE = NodeAddress(name="p0", url="http://10.0.0.1:30000/", role=Role.PREFILL, bootstrap_port=8998)


async def reading_by(client: OutboundClient) -> Reading:
    return ENGINES.get("sglang").read(await capture_node(client, NODE))


async def test_a_live_node_reads_like_its_saved_capture() -> None:
    client = serving(
        {
            "GET /server_info": httpx.Response(200, json=planted()),
            "GET /v1/models": httpx.Response(200, json=models(16384)),
        }
    )
    capture = await capture_node(client, NODE)
    text = dump_capture(Capture(nodes=(capture,)))
    assert SECRET not in text
    adapter = ENGINES.get("sglang")
    live, saved = adapter.read(capture), adapter.read(parse_capture(text).nodes[0])
    assert live == saved
    assert (live.first_refused, live.pool, live.context) == (10618, 10624, 16384)
    assert "api_key" in live.exposed_secrets
    assert live.url == NODE.url


async def test_the_old_route_is_asked_only_where_the_new_one_is_missing() -> None:
    paths: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        if request.url.path == "/get_server_info":
            return httpx.Response(200, json=info(version="0.5.5"))
        return httpx.Response(404 if "info" in request.url.path else 500)

    assert (await reading_by(client_of(handle))).version == "0.5.5"
    assert "/get_server_info" in paths
    await reading_by(serving({"GET /server_info": httpx.Response(200, json=info())}))
    assert paths.count("/get_server_info") == 1


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_a_bad_answer_is_recorded_and_never_raised(name: str) -> None:
    capture = await capture_node(client_of(BAD_ANSWERS[name]), NODE)
    assert set(capture.responses) >= {"GET /server_info", "GET /v1/models", "GET /metrics"}
    reading = ENGINES.get("sglang").read(capture)
    assert "p0" in reading.problem
    answer = capture.responses["GET /server_info"]
    assert answer.status in {0, 200, 500}
    if answer.status == 0:
        assert "10.0.0.1:30000" in answer.error


async def test_one_route_that_hangs_hides_no_other() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/server_info":
            raise httpx.ReadTimeout("nothing came", request=request)
        return httpx.Response(200, json=models(16384))

    capture = await capture_node(client_of(handle), NODE)
    assert capture.responses["GET /server_info"].status == 0
    assert capture.responses["GET /v1/models"].status == 200
    assert not ENGINES.get("sglang").read(capture).is_read


async def test_the_admin_key_is_tried_only_where_the_node_refuses_the_other() -> None:
    seen: list[tuple[str, str]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        key = request.headers["authorization"].removeprefix("Bearer ")
        seen.append((request.url.path, key))
        wants_admin = request.url.path == "/v1/loads"
        return httpx.Response(200 if (key == "admin") == wants_admin else 401, json={})

    await capture_node(client_of(handle), NODE, key="plain", admin_key="admin")
    assert ("/v1/loads", "admin") in seen
    assert ("/server_info", "admin") not in seen


async def test_a_fleet_is_asked_in_order_with_bounded_concurrency() -> None:
    hosts: set[str] = set()
    most = 0

    async def handle(request: httpx.Request) -> httpx.Response:
        nonlocal most
        hosts.add(request.url.host)
        most = max(most, len(hosts))
        await asyncio.sleep(0)
        hosts.discard(request.url.host)
        return httpx.Response(200, json=info())

    nodes = [
        NodeAddress(name=f"n{place}", url=f"http://10.0.0.{place}", role=Role.DECODE)
        for place in range(1, 9)
    ]
    client = OutboundClient(transport=httpx.MockTransport(handle))
    captures = await capture_fleet(client, nodes, concurrency=2)
    assert [capture.name for capture in captures] == [node.name for node in nodes]
    assert most <= 2


def test_handlers_are_what_the_client_takes() -> None:
    handlers: list[Handler] = list(BAD_ANSWERS.values())
    assert len(handlers) == 4
