"""A network on paper: an outbound client whose answers a test writes itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from fleet.client import OutboundClient

RECORDED = Path(__file__).resolve().parent.parent / "data" / "sglang"
READINGS = RECORDED / "readings"
ROUTER_RECORDINGS = RECORDED / "router"
SECRET = "sk-planted-7f3a9c"

Handler = Callable[[httpx.Request], httpx.Response]


def client_of(handler: Handler) -> OutboundClient:
    return OutboundClient(transport=httpx.MockTransport(handler))


def serving(answers: Mapping[str, httpx.Response]) -> OutboundClient:
    """Answer by "METHOD /path"; what is not named is 404."""

    def handle(request: httpx.Request) -> httpx.Response:
        return answers.get(f"{request.method} {request.url.path}", httpx.Response(404))

    return client_of(handle)


def refusing(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("all connection attempts failed", request=request)


def hanging(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("nothing came", request=request)


def broken(_: httpx.Request) -> httpx.Response:
    return httpx.Response(500, text="Internal Server Error")


def truncated(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text='{"workers":[{"id":"a","text": "ab')


#: The four bad answers that everything which asks must stand (house style, tests).
BAD_ANSWERS: Mapping[str, Handler] = {
    "refused": refusing,
    "timeout": hanging,
    "status": broken,
    "truncated": truncated,
}


def body_of(request: httpx.Request) -> dict[str, object]:
    document = json.loads(request.content)
    assert isinstance(document, dict)
    return document
