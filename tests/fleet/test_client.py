"""Rules of the one outbound client, on paper and over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from fleet.address import AddressPolicy, policy_from_environment
from fleet.client import OutboundClient
from fleet.contract import AddressRefused, BadAnswer, FleetError, NodeUnreachable
from tests.fleet.wire import SECRET, client_of

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[int]:
    """Serve on a loopback port; ``talk`` gets each connection after its request's head."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def saying(raw: bytes) -> Talk:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return talk


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nX-Mixed: Yes\r\n\r\n{}"


async def test_a_whole_answer_comes_back_with_its_headers_in_lower_case() -> None:
    async with listening(saying(OK)) as port, OutboundClient() as client:
        reply = await client.request("GET", f"http://127.0.0.1:{port}/x")
    assert (reply.status, reply.body, reply.headers["x-mixed"]) == (200, b"{}", "Yes")
    assert reply.seconds > 0


async def test_a_name_is_resolved_and_its_address_checked() -> None:
    async with listening(saying(OK)) as port, OutboundClient() as client:
        assert (await client.request("GET", f"http://localhost:{port}/x")).status == 200
    denied = policy_from_environment({"PAGEWARDEN_DENY_NETWORKS": "127.0.0.0/8 ::1/128"})
    async with listening(saying(OK)) as port, OutboundClient(policy=denied) as client:
        with pytest.raises(AddressRefused, match="localhost"):
            await client.request("GET", f"http://localhost:{port}/x")


async def test_only_checked_addresses_of_a_name_are_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads to a forbidden and a permitted address reaches the permitted one only."""
    asked: list[str] = []

    async def resolve(_: object, host: str, port: int, **__: object) -> list[Any]:
        asked.append(host)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("169.254.169.254", "127.0.0.1")
        ]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    async with listening(saying(OK)) as port, OutboundClient() as client:
        reply = await client.request("GET", f"http://rebind.example:{port}/x")
    assert (reply.status, asked) == (200, ["rebind.example"])


@pytest.mark.parametrize(
    ("raw", "kind", "words"),
    [
        (b"", NodeUnreachable, "reset"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", BadAnswer, "cut off"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", BadAnswer, "HTTP"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://evil/?t=1\r\nContent-Length: 0\r\n\r\n",
            BadAnswer,
            "redirect to http://evil/,",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx",
            BadAnswer,
            "compressed",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", BadAnswer, "999999999 bytes"),
    ],
)
async def test_bad_answers_are_told_apart(raw: bytes, kind: type[FleetError], words: str) -> None:
    async with listening(saying(raw)) as port, OutboundClient() as client:
        with pytest.raises(kind, match=words) as caught:
            await client.request("POST", f"http://127.0.0.1:{port}/x", json={}, key=SECRET)
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert caught.value.__cause__ is None


async def test_refused_dns_tls_and_time_out_are_told_apart() -> None:
    async def stay_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = unused.getsockname()[1]
    async with OutboundClient() as client:
        with pytest.raises(NodeUnreachable, match="refused the connection"):
            await client.request("GET", f"http://127.0.0.1:{closed}/")
        with pytest.raises(NodeUnreachable, match="DNS"):
            await client.request("GET", "http://no-such-host.invalid/")
        async with listening(stay_silent) as port:
            with pytest.raises(NodeUnreachable, match=r"within 0\.2 s \(time-out\)"):
                await client.request("GET", f"http://127.0.0.1:{port}/", timeout_s=0.2)
        server = await asyncio.start_server(_answer_plainly, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(NodeUnreachable, match="TLS"):
                await client.request("GET", f"https://127.0.0.1:{port}/")


async def _answer_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def test_an_endless_body_is_cut_at_the_cap() -> None:
    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while not writer.transport.is_closing():
            writer.write(b"x" * 65536)
            await writer.drain()

    async with listening(pour) as port, OutboundClient() as client:
        with pytest.raises(BadAnswer, match="more than the 100000 bytes"):
            await client.request("GET", f"http://127.0.0.1:{port}/", max_bytes=100_000)


async def test_a_request_that_is_cancelled_closes_its_connection() -> None:
    is_asked, is_closed = asyncio.Event(), asyncio.Event()

    async def wait_for_the_end(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        is_asked.set()
        assert await reader.read() == b"{}"
        is_closed.set()

    async with listening(wait_for_the_end) as port, OutboundClient() as client:
        url = f"http://127.0.0.1:{port}/generate"
        asking = asyncio.create_task(client.request("POST", url, json={}))
        await is_asked.wait()
        asking.cancel()
        await asyncio.wait_for(is_closed.wait(), timeout=5)
        assert (await asyncio.gather(asking, return_exceptions=True))[0] is not None


async def test_a_long_prompt_is_sent_whole() -> None:
    lengths: list[int] = []

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lengths.append(len(await reader.readexactly(expected)))
        writer.write(OK)

    tokens = list(range(300_000))
    expected = sum(len(str(token)) + 1 for token in tokens) + 1
    async with listening(count) as port, OutboundClient() as client:
        await client.request("POST", f"http://127.0.0.1:{port}/generate", json=tokens)
    assert lengths == [expected]


async def test_no_environment_redirects_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with listening(saying(OK)) as port, OutboundClient() as client:
        assert (await client.request("GET", f"http://127.0.0.1:{port}/")).status == 200


async def test_cookies_are_never_sent_back() -> None:
    seen: list[httpx.Headers] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200, headers={"set-cookie": "a=b"}, text="{}")

    client = client_of(handle)
    for _ in range(2):
        await client.request("GET", "http://10.0.0.1/", key=SECRET)
    assert all("cookie" not in headers for headers in seen)
    assert seen[0]["authorization"] == f"Bearer {SECRET}"


async def test_a_key_that_no_header_carries_is_refused_without_showing_it() -> None:
    client = client_of(lambda _: httpx.Response(200))
    for key in (f"{SECRET}\n", f"{SECRET}é", f"two {SECRET}"):
        with pytest.raises(FleetError) as caught:
            await client.request("GET", "http://10.0.0.1/", key=key)
        assert SECRET not in repr(caught.value)


async def test_the_policy_stands_before_any_transport() -> None:
    def handle(_: httpx.Request) -> httpx.Response:
        raise AssertionError("asked")

    client = OutboundClient(policy=AddressPolicy(), transport=httpx.MockTransport(handle))
    for url in ("http://8.8.8.8/", "http://169.254.169.254/latest/", "http://2130706433/"):
        with pytest.raises(AddressRefused):
            await client.request("GET", url)


async def test_no_more_requests_than_asked_for_are_under_way() -> None:
    under_way, most = 0, 0
    gate = asyncio.Event()

    async def handle(_: httpx.Request) -> httpx.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 3:
            gate.set()
        await gate.wait()
        under_way -= 1
        return httpx.Response(200)

    client = OutboundClient(transport=httpx.MockTransport(handle), concurrency=3)
    await asyncio.gather(*(client.request("GET", "http://10.0.0.1/") for _ in range(9)))
    assert most == 3
