"""How the router sends one body to both legs and makes one answer of two."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from drill.wire import dumps, json_reply
from drill.workers import NoWorker, Registry, Worker

_ATTEMPTS = 5
_FIRST_PAUSE_S = 0.05
_PAUSE_GROWTH = 1.5
_RETRIED = {408, 429, 500, 502, 503, 504}
"""Source of all four: sglang-router 0.3.2, defaults."""

_OK = range(200, 300)
_ERROR_NAMES = {400: "bad_request", 404: "not_found", 500: "internal_error", 503: "unavailable"}
_ID_LETTERS = string.ascii_letters + string.digits
_ID_PREFIXES = {"/generate": "gnt", "/v1/completions": "cmpl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of a client, to be sent to a pair of workers."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    request_id: str

    @property
    def is_streamed(self) -> bool:
        """Tell whether the client wants a stream of events."""
        return self.body.get("stream") is True


@dataclass(frozen=True, slots=True, kw_only=True)
class LegReply:
    """What a worker answered; status None when the connection failed."""

    status: int | None
    body: bytes
    content_type: str = "application/json"

    @property
    def is_ok(self) -> bool:
        """Tell whether the leg went well."""
        return self.status is not None and self.status in _OK


def new_request_id(path: str) -> str:
    """Answer an id in the router's form."""
    tail = "".join(secrets.choice(_ID_LETTERS) for _ in range(24))
    return f"{_ID_PREFIXES.get(path, 'req')}-{tail}"


def router_error(status: int, code: str, message: str) -> web.Response:
    """Answer an error as the router words it."""
    kind = HTTPStatus(status).phrase
    return json_reply(
        {"error": {"type": kind, "code": code, "message": message}},
        status,
        headers={"x-smg-error-code": code},
    )


class Forwarder:
    """Sends calls to pairs of workers, with retries."""

    def __init__(self, registry: Registry, session: aiohttp.ClientSession) -> None:
        self._registry = registry
        self._session = session

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
            return await self._send_streamed(call, body, (prefill, decode), request)
        async with asyncio.TaskGroup() as legs:
            first = legs.create_task(self._leg(call, prefill, body))
            second = legs.create_task(self._leg(call, decode, body))
        return _joined(prefill, first.result(), second.result(), call.path)

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

    async def _send_streamed(
        self, call: Call, body: bytes, pair: tuple[Worker, Worker], request: web.Request
    ) -> web.StreamResponse:
        prefill, decode = pair
        async with asyncio.TaskGroup() as legs:
            first = legs.create_task(self._leg(call, prefill, body))
            try:
                async with self._post(call, decode, body) as reply:
                    if reply.status in _OK:
                        return await self._pipe(call, reply, request)
                    second = LegReply(status=reply.status, body=await reply.read())
            except aiohttp.ClientConnectorError as error:
                second = LegReply(status=None, body=str(error).encode())
        return _joined(prefill, first.result(), second, call.path)

    async def _pipe(
        self, call: Call, reply: aiohttp.ClientResponse, request: web.Request
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": reply.headers.get("Content-Type", "text/event-stream"),
                "x-request-id": call.request_id,
            }
        )
        await response.prepare(request)
        async for chunk in reply.content.iter_any():
            await response.write(chunk)
        return response


def _joined(prefill: Worker, first: LegReply, second: LegReply, path: str) -> web.Response:
    """Make one answer of two: decode's error wins, then prefill's, else decode's body.

    Source: sglang-router 0.3.2, run against dummy workers; section 8.4 of the engines' notes.
    """
    if not second.is_ok:
        if second.status is None:
            return router_error(502, "decode_server_error", f"Decode server error: {_text(second)}")
        return _leg_error("decode", second.status, _message_in(second.body))
    if first.is_ok:
        return web.Response(body=second.body, status=200, content_type=second.content_type)
    if first.status is None:
        return router_error(
            502,
            "prefill_server_error",
            f"Prefill server error: error sending request for url ({prefill.url}{path}). "
            "This will cause decode timeout.",
        )
    phrase = HTTPStatus(first.status).phrase
    message = f"Prefill server error ({first.status} {phrase}): {_text(first)}"
    return _leg_error("prefill", first.status, message)


def _leg_error(leg: str, status: int, message: str) -> web.Response:
    name = _ERROR_NAMES.get(status)
    if name is None:
        return router_error(500, f"{leg}_error", message)
    return router_error(status, f"{leg}_{name}", message)


def _text(reply: LegReply) -> str:
    return reply.body.decode("utf-8", "replace")


def _message_in(body: bytes) -> str:
    """Answer the message in an error of either of the engine's shapes."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except ValueError:
        return text
    inner = value.get("error", value) if isinstance(value, dict) else value
    message = inner.get("message") if isinstance(inner, dict) else inner
    return message if isinstance(message, str) else text
