"""Whether secrets lie open to whoever has no key: asked once, and no body is kept of it."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.registry import load_plugins
from fleet.captures import Capture, dump_capture, parse_capture
from fleet.contract import NodeCapture
from fleet.keyless import WITHOUT_KEY, capture_and_try, read_capture
from fleet.live import NodeAddress
from fleet.reading import Role
from tests.fleet.wire import SECRET, client_of

load_plugins("fleet.engines")
NODE = NodeAddress(name="p0", url="http://127.0.0.1:30000", role=Role.UNIFIED)
INFO = {"max_req_input_len": 9, "max_total_num_tokens": 15, "admin_api_key": SECRET}
TIDY = {"max_req_input_len": 9, "max_total_num_tokens": 15}
ASKED = f"GET /server_info{WITHOUT_KEY}"


class Engine:
    """An engine that shows its keys, and does one thing to whoever has none."""

    def __init__(self, without_key: httpx.Response | Exception) -> None:
        self.without_key = without_key
        self.anonymous: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/server_info":
            return httpx.Response(404)
        if request.headers.get("authorization"):
            return httpx.Response(200, json=INFO)
        self.anonymous.append(request.method)
        if isinstance(self.without_key, Exception):
            raise self.without_key
        return self.without_key


async def captured(engine: Engine, *, key: str = "k") -> NodeCapture:
    async with client_of(engine) as client:
        (capture,) = await capture_and_try(client, [NODE], key=key)
    return capture


@pytest.mark.parametrize(
    ("without_key", "lies_open"),
    [
        (httpx.Response(200, json=INFO), True),
        (httpx.Response(401), False),
        (httpx.Response(403, json={"error": "no"}), False),
        (httpx.Response(200, json=TIDY), False),
        (httpx.Response(200, html="<html>hello</html>"), None),
        (httpx.Response(200, text='{"admin_api'), None),
        (httpx.Response(404), None),
        (httpx.Response(429), None),
        (httpx.Response(500, text="x"), None),
        (httpx.ReadTimeout("nothing came"), None),
        (httpx.ConnectError("refused"), None),
    ],
)
async def test_what_is_shown_without_a_key_decides_and_silence_does_not(
    without_key: httpx.Response | Exception, *, lies_open: bool | None
) -> None:
    engine = Engine(without_key)
    capture = await captured(engine)
    assert engine.anonymous == ["GET"]
    reading = read_capture(capture)
    assert (reading.is_read, reading.secrets_open) == (True, lies_open)
    assert "admin_api_key" in reading.exposed_secrets
    kept = capture.responses[ASKED]
    assert (kept.json, kept.text) == (None, None)
    text = dump_capture(Capture(nodes=(capture,)))
    assert SECRET not in text
    (again,) = parse_capture(text).nodes
    assert read_capture(again).secrets_open is lies_open


async def test_nobody_is_asked_twice_where_no_key_is_configured() -> None:
    engine = Engine(httpx.Response(200, json=INFO))
    assert read_capture(await captured(engine, key="")).secrets_open is True
    assert engine.anonymous == ["GET"]


async def test_what_shows_no_secret_is_not_asked_again() -> None:
    async with client_of(lambda _: httpx.Response(200, json=TIDY)) as client:
        (capture,) = await capture_and_try(client, [NODE], key="k")
    assert not any(route.endswith(WITHOUT_KEY) for route in capture.responses)
    assert read_capture(capture).secrets_open is None


def test_a_capture_without_that_observation_leaves_it_unknown() -> None:
    text = (
        '{"nodes": [{"name": "p0", "engine": "sglang", "role": "unified", "responses": '
        '{"GET /server_info": {"status": 200, "json": {"max_req_input_len": 9, "api_key": "x"}}}}]}'
    )
    (capture,) = parse_capture(text).nodes
    reading = read_capture(capture)
    assert (reading.exposed_secrets, reading.secrets_open) == (("api_key",), None)


@given(st.binary(max_size=200), st.sampled_from([200, 204, 302, 401, 404, 503]))
async def test_no_body_without_a_key_raises_or_is_kept(body: bytes, status: int) -> None:
    capture = await captured(Engine(httpx.Response(status, content=body)))
    assert read_capture(capture).secrets_open in {True, False, None}
    assert (capture.responses[ASKED].json, capture.responses[ASKED].text) == (None, None)
