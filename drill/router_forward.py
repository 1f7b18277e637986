"""How the router sends one body to both legs, and again while the answer is a server's fault."""

from __future__ import annotations

import asyncio
import random
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from drill.departures import Departures
from drill.router_answers import Call, LegReply, joined, router_error
from drill.router_streams import send_streamed
from drill.wire import dumps
from drill.workers import NoWorker, Registry, Worker

_ATTEMPTS = 5
_FIRST_PAUSE_S = 0.05
_PAUSE_GROWTH = 1.5
_RETRIED = {408, 429, 500, 502, 503, 504}
"""Source of all four: sglang-router 0.3.2, defaults."""


class Forwarder:
    """Sends calls to pairs of workers, with retries."""

    def __init__(
        self, registry: Registry, session: aiohttp.ClientSession, departures: Departures
    ) -> None:
        self._registry = registry
        self._session = session
        self._departures = departures

    async def forward(self, call: Call, request: web.Request) -> web.StreamResponse:
        """Answer a client's call, trying again while the answer is a server's fault."""
        pause_s = _FIRST_PAUSE_S
        for left in range(_ATTEMPTS - 1, -1, -1):
            response = await self._attempt(call, request)
            if response.status not in _RETRIED or not left:
                break
            await asyncio.sleep(pause_s)
            pause_s *= _PAUSE_GROWTH
        if not response.prepared:
            response.headers["x-request-id"] = call.request_id
        return response

    async def _attempt(self, call: Call, request: web.Request) -> web.StreamResponse:
        try:
            prefill, decode = self._registry.select_pair()
        except NoWorker as error:
            return router_error(503, "server_selection_failed", str(error))
        pair = (prefill, decode)
        for worker in pair:
            worker.load += 1
        try:
            response = await self._send(call, prefill, decode, request)
        finally:
            for worker in pair:
                worker.load -= 1
        for worker in pair:
            worker.breaker.note(is_success=response.status < HTTPStatus.INTERNAL_SERVER_ERROR)
        return response

    async def _send(
        self, call: Call, prefill: Worker, decode: Worker, request: web.Request
    ) -> web.StreamResponse:
        body = dumps(
            {
                **call.body,
                "bootstrap_host": urlsplit(prefill.url).hostname,
                "bootstrap_port": prefill.bootstrap_port,
                "bootstrap_room": random.SystemRandom().getrandbits(63),
            }
        ).encode()
        if call.is_streamed:
            posts = (self._post(call, prefill, body), self._post(call, decode, body))
            return await send_streamed(call, prefill, posts, request)
        first = asyncio.ensure_future(self._leg(call, prefill, body))
        second = asyncio.ensure_future(self._leg(call, decode, body))
        try:
            await asyncio.wait({first, second})
        except asyncio.CancelledError:
            self._departures.leave(first, second)
            raise
        return joined(prefill, first.result(), second.result(), call.path)

    async def _leg(self, call: Call, worker: Worker, body: bytes) -> LegReply:
        try:
            async with self._post(call, worker, body) as reply:
                return LegReply(
                    status=reply.status, body=await reply.read(), content_type=reply.content_type
                )
        except aiohttp.ClientError as error:
            return LegReply(status=None, body=str(error).encode())

    def _post(
        self, call: Call, worker: Worker, body: bytes
    ) -> aiohttp.client._RequestContextManager:
        headers = {"Content-Type": "application/json", **call.headers}
        if worker.api_key is not None:
            headers["Authorization"] = f"Bearer {worker.api_key}"
        return self._session.post(worker.url + call.path, data=body, headers=headers)
