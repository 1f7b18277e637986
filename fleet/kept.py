"""GETs over kept connections, straight through aiohttp: what a sweep spends its time on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from fleet.address import Endpoint, show_url
from fleet.contract import BadAnswer, Reply
from fleet.faults import TRANSPORT_FAULTS, explain, timed_out

#: A node that does not even take the connection is given up sooner than one that thinks.
CONNECT_TIMEOUT_S: Final = 5.0
_REDIRECTS: Final = range(300, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one answer may take, in seconds and bytes."""

    timeout_s: float
    max_bytes: int


async def kept_get(
    session: aiohttp.ClientSession,
    url: str,
    *,
    endpoint: Endpoint,
    headers: Mapping[str, str],
    limits: Limits,
) -> Reply:
    """Answer the reply to one GET. Raises AddressRefused, NodeUnreachable, BadAnswer.

    httpx in between costs as much again as the request itself (docs/bench.md), so it is left out.
    """
    started = time.monotonic()
    try:
        async with (
            asyncio.timeout(limits.timeout_s) as limit,
            session.get(
                URL(url, encoded=True),
                headers=headers,
                allow_redirects=False,
                timeout=_phases(limits.timeout_s),
            ) as response,
        ):
            check_head(response.status, response.headers, endpoint, limits.max_bytes)
            body = await _read_body(response.content, endpoint, limits.max_bytes)
    except TRANSPORT_FAULTS as fault:
        if isinstance(fault, TimeoutError) and limit.expired():
            raise timed_out(endpoint.origin, limits.timeout_s) from None
        raise explain(fault, origin=endpoint.origin) from None
    return Reply(
        status=response.status,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=body,
        seconds=time.monotonic() - started,
    )


def check_head(status: int, headers: Mapping[str, str], endpoint: Endpoint, max_bytes: int) -> None:
    """Let the head of an answer pass, or raise BadAnswer. ``headers`` know no case."""
    at = endpoint.origin
    if status in _REDIRECTS:
        to = show_url(headers.get("location", "nowhere"))
        raise BadAnswer(
            f"{at} answered {status}, a redirect to {to}, which is never followed: "
            "give the final address"
        )
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise BadAnswer(f"{at} compressed its answer although it was asked not to")
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > max_bytes:
        raise BadAnswer(f"{at} answers with {announced[:20]} bytes; {max_bytes} are taken at most")


def too_large(endpoint: Endpoint, max_bytes: int) -> BadAnswer:
    """Answer the error for a body that went on after the cap."""
    return BadAnswer(
        f"{endpoint.origin} answers with more than the {max_bytes} bytes that are taken"
    )


def _phases(timeout_s: float) -> aiohttp.ClientTimeout:
    """Answer the limit on connecting; the total is held by the caller."""
    return aiohttp.ClientTimeout(total=None, sock_connect=min(timeout_s, CONNECT_TIMEOUT_S))


async def _read_body(content: aiohttp.StreamReader, endpoint: Endpoint, max_bytes: int) -> bytes:
    parts = bytearray()
    while part := await content.readany():
        parts += part
        if len(parts) > max_bytes:
            raise too_large(endpoint, max_bytes)
    return bytes(parts)
