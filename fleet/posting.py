"""Sends one prompt, once, straight through aiohttp; a listener hears what comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import httpx
from yarl import URL

from fleet.address import Endpoint
from fleet.contract import Listener
from fleet.faults import TRANSPORT_FAULTS, explain, timed_out
from fleet.kept import CONNECT_TIMEOUT_S, Limits, check_head, too_large

#: From here on a body is sent in parts, so that a prompt of a million tokens blocks nobody. Parts
#: of this size cost no more than the whole at once (docs/bench.md).
PART_BYTES: Final = 256 * 1024
#: A stream is read and dropped as it comes, and SGLang repeats the whole answer in every frame.
STREAM_MAX_BYTES: Final = 64 * 1024 * 1024
#: The whole is held by the caller; aiohttp would round it up to whole seconds of the clock.
_PHASES: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One prompt, ready to be sent: where to, with which headers, and its bytes."""

    url: str
    endpoint: Endpoint
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


async def post(
    session: aiohttp.ClientSession, letter: Letter, *, limits: Limits, listener: Listener
) -> None:
    """Send a letter over a connection of its own.

    ``session`` keeps no connections: a prompt is never sent twice, and its clock includes the
    connection. Raises AddressRefused, NodeUnreachable, BadAnswer.
    """
    hearing = _Hearing(letter, limits, listener)
    is_short = len(letter.body) <= PART_BYTES
    async with (
        _within(letter, limits),
        session.post(
            URL(letter.url, encoded=True),
            headers=letter.headers,
            data=letter.body if is_short else parts_of(letter.body),
            allow_redirects=False,
            timeout=_PHASES,
        ) as response,
    ):
        hearing.begin(response.status, response.headers)
        while part := await response.content.readany():
            if hearing.is_enough(part):
                break


async def post_by_transport(
    transport: httpx.AsyncBaseTransport, letter: Letter, *, limits: Limits, listener: Listener
) -> None:
    """Send a letter by the seam for tests. Raises AddressRefused, NodeUnreachable, BadAnswer."""
    hearing = _Hearing(letter, limits, listener)
    request = httpx.Request("POST", letter.url, headers=letter.headers, content=letter.body)
    async with _within(letter, limits):
        response = await transport.handle_async_request(request)
        try:
            hearing.begin(response.status_code, response.headers)
            async for part in _parts_in(response):
                if hearing.is_enough(part):
                    break
        finally:
            await response.aclose()


class _Hearing:
    """Hands the parts of one answer to its listener and holds the cap on their size."""

    def __init__(self, letter: Letter, limits: Limits, listener: Listener) -> None:
        self._endpoint = letter.endpoint
        self._max_bytes = limits.max_bytes
        self._listener = listener
        self._started = time.monotonic()
        self._size = 0

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head. Raises BadAnswer."""
        check_head(status, headers, self._endpoint, self._max_bytes)
        self._listener.begin(status, {name.lower(): value for name, value in headers.items()})

    def is_enough(self, part: bytes) -> bool:
        """Take a part and answer whether no more is wanted. Raises BadAnswer."""
        self._size += len(part)
        is_enough = self._listener.hear(part, time.monotonic() - self._started)
        if self._size > self._max_bytes:
            raise too_large(self._endpoint, self._max_bytes)
        return is_enough


async def parts_of(body: bytes) -> AsyncIterator[memoryview]:
    """Answer a body piece by piece, without a copy."""
    view = memoryview(body)
    for start in range(0, len(view), PART_BYTES):
        yield view[start : start + PART_BYTES]


async def _parts_in(response: httpx.Response) -> AsyncIterator[bytes]:
    """Answer the parts of an answer; one made for a test may be whole already."""
    if response.is_stream_consumed:
        yield response.content
        return
    async for part in response.aiter_raw():
        yield part


@asynccontextmanager
async def _within(letter: Letter, limits: Limits) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limits.timeout_s) as limit:
            yield
    except TRANSPORT_FAULTS as fault:
        if isinstance(fault, TimeoutError) and limit.expired():
            raise timed_out(letter.endpoint.origin, limits.timeout_s) from None
        raise explain(fault, origin=letter.endpoint.origin) from None
