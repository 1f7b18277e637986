"""Small helpers of every HTTP server here: JSON bodies in, compact JSON out, one runner a port."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

MAX_BODY_BYTES = 64 * 1024 * 1024
HOST = "127.0.0.1"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PortTaken(Exception):
    """A port cannot be listened on; the text says which."""


class BadBody(Exception):
    """A request body that is no JSON object."""


def dumps(value: object) -> str:
    """Answer compact JSON, as the engine writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def json_reply(
    value: object, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """Answer a JSON response."""
    return web.Response(
        body=dumps(value).encode(),
        status=status,
        headers=headers,
        content_type="application/json",
    )


async def read_object(request: web.Request) -> dict[str, Any]:
    """Answer the JSON object of a request. Raises BadBody."""
    try:
        body = json.loads(await request.read())
    except ValueError:
        raise BadBody("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadBody("the body is not a JSON object")
    return body


def drop(request: web.Request) -> web.StreamResponse:
    """Cut the connection, as the end of a process does."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


class Port:
    """One listening port; it can be closed and opened again with another application."""

    def __init__(self, number: int = 0) -> None:
        self._sock: socket.socket | None = None
        self._runner: web.AppRunner | None = None
        self.number = number

    @property
    def url(self) -> str:
        """Answer the address of the server behind the port."""
        return f"http://{HOST}:{self.number}"

    def claim(self) -> socket.socket:
        """Bind the port without listening yet. Raises PortTaken."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, self.number))
        except OSError as error:
            sock.close()
            raise PortTaken(f"port {self.number} on {HOST}: {error.strerror}") from None
        self._sock = sock
        self.number = sock.getsockname()[1]
        return sock

    async def open(self, app: web.Application) -> None:
        """Serve an application on the port. Raises PortTaken."""
        sock, self._sock = self._sock or self.claim(), None
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        self._runner = runner
        try:
            await web.SockSite(runner, sock).start()
        except OSError as error:
            sock.close()
            await self.close()
            raise PortTaken(f"port {self.number} on {HOST}: {error.strerror}") from None

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()
            await asyncio.sleep(0)
