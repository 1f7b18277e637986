"""GETs over kept connections, the short way or by aiohttp: what a sweep spends its time on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import aiohttp
from yarl import URL

from fleet.address import Endpoint, show_url
from fleet.contract import BadAnswer, Reply
from fleet.faults import TRANSPORT_FAULTS, explain, timed_out
from fleet.plain_get import PlainGetter

#: A node that does not even take the connection is given up sooner than one that thinks.
CONNECT_TIMEOUT_S: Final = 5.0
#: Left to the long way where the short one took nearly all of the time.
_LEAST_S: Final = 0.1
_REDIRECTS: Final = range(300, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one answer may take, in seconds and bytes."""

    timeout_s: float
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One GET: ``url`` is what ``endpoint`` was read from, ``headers`` may hold a key."""

    url: str
    endpoint: Endpoint
    headers: Mapping[str, str] = field(repr=False)
    limits: Limits


async def get(plain: PlainGetter, session: aiohttp.ClientSession, question: Question) -> Reply:
    """Answer the reply to one GET. Raises AddressRefused, NodeUnreachable, BadAnswer.

    The short way is not tried where connecting has a limit of its own, which it does not know.
    """
    started = time.monotonic()
    limits, endpoint = question.limits, question.endpoint
    if limits.timeout_s <= CONNECT_TIMEOUT_S:
        try:
            async with asyncio.timeout(limits.timeout_s):
                found = await plain.get(
                    question.url,
                    endpoint=endpoint,
                    headers=question.headers,
                    max_bytes=limits.max_bytes,
                )
        except TimeoutError:
            raise timed_out(endpoint.origin, limits.timeout_s) from None
        if found is not None:
            return Reply(
                status=found.status,
                headers=found.headers,
                body=found.body,
                seconds=time.monotonic() - started,
            )
    return await _kept_get(session, question, started)


async def _kept_get(session: aiohttp.ClientSession, question: Question, started: float) -> Reply:
    """Answer the reply by aiohttp, whatever it is, in what is left of the time.

    httpx in between costs as much again as the request itself (docs/bench.md), so it is left out.
    """
    limits, endpoint = question.limits, question.endpoint
    spent_s = time.monotonic() - started
    try:
        async with session.get(
            URL(question.url, encoded=True),
            headers=question.headers,
            allow_redirects=False,
            timeout=_phases(max(limits.timeout_s - round(spent_s, 1), _LEAST_S)),
        ) as response:
            check_head(response.status, response.headers, endpoint, limits.max_bytes)
            body = await _read_body(response.content, endpoint, limits.max_bytes)
    except TRANSPORT_FAULTS as fault:
        # aiohttp's own word for: the whole took too long. Its others, and the system's, say more.
        if type(fault) is TimeoutError and fault.errno is None:
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


@lru_cache(maxsize=64)
def _phases(timeout_s: float) -> aiohttp.ClientTimeout:
    """Answer the limits on the whole and on connecting.

    aiohttp would round limits above ``ceil_threshold`` up to whole seconds of the clock.
    """
    connect_s = CONNECT_TIMEOUT_S if timeout_s > CONNECT_TIMEOUT_S else None
    return aiohttp.ClientTimeout(
        total=timeout_s, sock_connect=connect_s, ceil_threshold=timeout_s + 1
    )


async def _read_body(content: aiohttp.StreamReader, endpoint: Endpoint, max_bytes: int) -> bytes:
    parts = bytearray()
    while part := await content.readany():
        parts += part
        if len(parts) > max_bytes:
            raise too_large(endpoint, max_bytes)
    return bytes(parts)
