"""How the router answers with a stream: both legs must have begun, then decode's events follow."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import aiohttp
from aiohttp import web

from drill.router_answers import Call, LegReply, joined
from drill.wire import drop, dumps
from drill.workers import Worker

_EVENTS = "text/event-stream"

Post = aiohttp.client._RequestContextManager  # noqa: SLF001 - aiohttp names it nowhere else
Opened = aiohttp.ClientResponse | LegReply
"""A leg that has begun to answer, or what its connection broke with."""


async def send_streamed(
    call: Call, prefill: Worker, posts: tuple[Post, Post], request: web.Request
) -> web.StreamResponse:
    """Answer a call whose legs are to be posted; prefill's answer is read to its end first.

    Source: sglang-router 0.3.2, pd_router.rs; the error of a stream as recorded.
    """
    async with AsyncExitStack() as opened:
        first, second = await asyncio.gather(*(_open(post, opened) for post in posts))
        if isinstance(second, aiohttp.ClientResponse) and not second.ok:
            return await _broken_event(second, call)
        first_reply = await _read(first)
        if isinstance(second, LegReply) or not first_reply.is_ok:
            return joined(prefill, first_reply, await _as_reply(second), call.path)
        return await _pipe(call, second, request)


async def _open(post: Post, opened: AsyncExitStack) -> Opened:
    try:
        return await opened.enter_async_context(post)
    except aiohttp.ClientError as error:
        return LegReply(status=None, body=str(error).encode())


async def _read(leg: Opened) -> LegReply:
    if isinstance(leg, LegReply):
        return leg
    try:
        return LegReply(status=leg.status, body=await leg.read(), content_type=leg.content_type)
    except aiohttp.ClientError as error:
        return LegReply(status=None, body=str(error).encode())


async def _as_reply(leg: Opened) -> LegReply:
    """Answer what a leg said so far as a reply; a stream that began well is not waited for."""
    return leg if isinstance(leg, LegReply) else LegReply(status=leg.status, body=b"")


async def _broken_event(decode: aiohttp.ClientResponse, call: Call) -> web.Response:
    """Answer decode's refusal as the router does: no JSON, and cut to the length of its cause."""
    cause = await decode.read()
    try:
        message = json.loads(cause)
    except ValueError:
        message = cause.decode("utf-8", "replace")
    event = f"data: {{'error': {dumps({'message': message, 'status': decode.status})}}}"
    response = web.Response(body=event.encode()[: len(cause)], status=decode.status)
    response.headers["Content-Type"] = _EVENTS
    response.headers["x-request-id"] = call.request_id
    return response


async def _pipe(
    call: Call, decode: aiohttp.ClientResponse, request: web.Request
) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"Content-Type": _EVENTS, "x-request-id": call.request_id}
    )
    await response.prepare(request)
    try:
        async for chunk in decode.content.iter_any():
            await response.write(chunk)
    except aiohttp.ClientError:
        return drop(request)
    return response
