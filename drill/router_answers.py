"""What legs answered to the router, and the one answer that it makes of two."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from drill.wire import json_reply
from drill.workers import Worker

_OK = range(200, 300)
_ERROR_NAMES = {400: "bad_request", 404: "not_found", 500: "internal_error", 503: "unavailable"}
_ID_LETTERS = string.ascii_letters + string.digits
_ID_PREFIXES = {"/generate": "gnt", "/v1/completions": "cmpl", "/v1/chat/completions": "chatcmpl"}


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


def joined(prefill: Worker, first: LegReply, second: LegReply, path: str) -> web.Response:
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
