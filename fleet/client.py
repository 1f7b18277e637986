"""The one outbound client: every request to a node or a router goes through it."""

from __future__ import annotations

import asyncio
import ipaddress
import json as jsonlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Final, Self

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from httpx_aiohttp import AiohttpTransport

from fleet.address import AddressPolicy, Endpoint, show_url
from fleet.contract import AddressRefused, FleetError, Listener, Reply
from fleet.faults import TRANSPORT_FAULTS, explain, timed_out
from fleet.kept import CONNECT_TIMEOUT_S, Limits, Question, check_head, get, too_large
from fleet.plain_get import PlainGetter
from fleet.posting import STREAM_MAX_BYTES, Letter, post, post_by_transport

DEFAULT_TIMEOUT_S: Final = 10.0
DEFAULT_MAX_BYTES: Final = 8 * 1024 * 1024
DEFAULT_CONCURRENCY: Final = 64
#: Below the 5 s after which uvicorn, under SGLang, closes an idle connection: a request that meets
#: the closing would look like a node that died.
KEEP_ALIVE_S: Final = 4.0
#: From here on a body is sent in parts, so that a prompt of a million tokens blocks nobody.
_PART_BYTES: Final = 256 * 1024
_AGENT: Final = "pagewarden"


class CheckedResolver(AbstractResolver):
    """Resolves names and hands on only addresses that the policy lets pass.

    aiohttp connects to what a resolver returns and asks nobody else, so the address that was
    checked is the one connected to.
    """

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Answer the addresses that may be connected to. Raises AddressRefused, OSError."""
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, family=family
        )
        passed: list[ResolveResult] = []
        refusals: list[str] = []
        for kind, _, protocol, _, place in found:
            literal = str(place[0])
            try:
                self._policy.check_address(ipaddress.ip_address(literal), host=host)
            except AddressRefused as refusal:
                refusals.append(str(refusal))
            else:
                passed.append(
                    {
                        "hostname": host,
                        "host": literal,
                        "port": port,
                        "family": kind,
                        "proto": protocol,
                        "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                    }
                )
        if not passed:
            raise AddressRefused(refusals[0] if refusals else f"{host} has no address")
        return passed

    async def close(self) -> None:
        """Hold nothing."""


class OutboundClient:
    """Asks nodes and routers within the address policy; an async context manager.

    No redirect, cookie, proxy or environment variable is followed. ``transport`` is the seam for
    tests. At most ``concurrency`` requests are under way; the others wait in order. An unused
    connection is kept for ``keep_alive_s`` seconds.
    """

    def __init__(
        self,
        *,
        policy: AddressPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        keep_alive_s: float = KEEP_ALIVE_S,
    ) -> None:
        self._policy = policy or AddressPolicy()
        self._concurrency = concurrency
        self._keep_alive_s = keep_alive_s
        self._slots = asyncio.Semaphore(concurrency)
        self._seam = transport
        self._fresh = transport
        self._kept: aiohttp.ClientSession | None = None
        self._plain = PlainGetter(CheckedResolver(self._policy), keep_alive_s=keep_alive_s)
        self._letters: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        if self._seam is None:
            trust = ssl.create_default_context()
            self._kept = self._build_session(trust, keep_alive=True)
            self._letters = self._build_session(trust, keep_alive=False)
            self._fresh = AiohttpTransport(client=self._letters, verify=trust, trust_env=False)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fresh is not None:
            await self._fresh.aclose()
        if self._kept is not None:
            await self._kept.close()
        self._plain.close()

    async def request(  # noqa: PLR0913 - keyword-only from the third on
        self,
        method: str,
        url: str,
        *,
        json: object = None,
        key: str = "",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> Reply:
        """Answer the whole reply, whatever its status below 300 or from 400 on.

        ``json`` may be bytes that are JSON already, so that one body serves several requests.
        Errors: AddressRefused before anything is sent; NodeUnreachable when nothing came; BadAnswer
        for a redirect, a body too large, encoded or cut off; FleetError for an unusable key.
        """
        endpoint = self._policy.check_url(url)
        body = b"" if json is None else json if isinstance(json, bytes) else compact_json(json)
        if method == "GET" and not body and self._kept is not None:
            headers = _headers(key, endpoint, size=0)
            limits = Limits(timeout_s=timeout_s, max_bytes=max_bytes)
            question = Question(url=url, endpoint=endpoint, headers=headers, limits=limits)
            async with self._slots:
                return await get(self._plain, self._kept, question)
        try:
            request = httpx.Request(
                method,
                url,
                headers=_headers(key, endpoint, size=len(body)),
                content=body if len(body) <= _PART_BYTES else _parts_of(body),
                extensions={"timeout": _timeouts(timeout_s)},
            )
        except httpx.InvalidURL:
            raise AddressRefused(f"the address {show_url(url)} is not plain") from None
        async with self._slots:
            return await self._send(request, endpoint, timeout_s, max_bytes)

    async def post(  # noqa: PLR0913 - keyword-only from the second on
        self,
        url: str,
        *,
        body: bytes,
        listener: Listener,
        key: str = "",
        request_id: str = "",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Send a prompt, once, and let the listener hear the answer while it comes.

        Errors: as ``request``; what was heard until then, the listener knows.
        """
        endpoint = self._policy.check_url(url)
        headers = _headers(key, endpoint, size=len(body))
        if request_id:
            headers["x-request-id"] = request_id
        letter = Letter(url=url, endpoint=endpoint, headers=headers, body=body)
        limits = Limits(timeout_s=timeout_s, max_bytes=STREAM_MAX_BYTES)
        async with self._slots:
            if self._letters is not None:
                await post(self._letters, letter, limits=limits, listener=listener)
            elif self._seam is not None:
                await post_by_transport(self._seam, letter, limits=limits, listener=listener)
            else:
                raise RuntimeError("the outbound client is used outside its context")

    async def _send(
        self, request: httpx.Request, endpoint: Endpoint, timeout_s: float, max_bytes: int
    ) -> Reply:
        transport = self._fresh
        if transport is None:
            raise RuntimeError("the outbound client is used outside its context")
        started = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                response = await transport.handle_async_request(request)
                try:
                    body = await _read_body(response, endpoint, max_bytes)
                finally:
                    await response.aclose()
        except TRANSPORT_FAULTS as fault:
            if isinstance(fault, TimeoutError) and limit.expired():
                raise timed_out(endpoint.origin, timeout_s) from None
            raise explain(fault, origin=endpoint.origin) from None
        return Reply(
            status=response.status_code,
            headers=_first_headers(response),
            body=body,
            seconds=time.monotonic() - started,
        )

    def _build_session(self, trust: ssl.SSLContext, *, keep_alive: bool) -> aiohttp.ClientSession:
        """Answer a session that reuses connections, or one that makes a new one each time.

        Only a GET can be sent again by itself when a server closes an idle connection in the same
        moment; a prompt must not be, and its clock is to include the connection.
        """
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(self._policy),
            use_dns_cache=False,
            ssl=trust,
            limit=self._concurrency,
            force_close=not keep_alive,
            keepalive_timeout=self._keep_alive_s if keep_alive else None,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )


async def _read_body(response: httpx.Response, endpoint: Endpoint, max_bytes: int) -> bytes:
    check_head(response.status_code, response.headers, endpoint, max_bytes)
    parts = bytearray()
    async for part in _parts_of(response.content) if _is_read(response) else response.aiter_raw():
        parts += part
        if len(parts) > max_bytes:
            raise too_large(endpoint, max_bytes)
    return bytes(parts)


def compact_json(value: object) -> bytes:
    """Answer a value as JSON without blanks."""
    return jsonlib.dumps(value, separators=(",", ":")).encode()


async def _parts_of(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PART_BYTES):
        yield body[start : start + _PART_BYTES]


def _is_read(response: httpx.Response) -> bool:
    """Answer whether a transport gave the answer whole, as one for tests does."""
    return response.is_stream_consumed


def _headers(key: str, endpoint: Endpoint, *, size: int) -> dict[str, str]:
    headers = {
        "accept": "application/json, text/plain;q=0.9, */*;q=0.1",
        "accept-encoding": "identity",
        "user-agent": _AGENT,
    }
    if size:
        headers |= {"content-type": "application/json", "content-length": str(size)}
    if key:
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise FleetError(
                f"the key for {endpoint.origin} holds blanks, line ends or signs outside ASCII, "
                "which no header can carry: check the file it came from"
            )
        headers["authorization"] = f"Bearer {key}"
    return headers


def _timeouts(timeout_s: float) -> dict[str, float]:
    """Answer per-phase limits; the total is held by the caller, so reading has no own limit."""
    return {"connect": min(timeout_s, CONNECT_TIMEOUT_S), "pool": timeout_s, "write": timeout_s}


def _first_headers(response: httpx.Response) -> Mapping[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}
