"""A thin gateway before the router: it answers a body that it has answered before by itself."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web

from drill.guards import Guard, GuardSwitches
from drill.wire import MAX_BODY_BYTES, Port, drop

_CACHED_PATHS = ("/generate", "/v1/completions", "/v1/chat/completions")
_ANSWERS_KEPT = 1_000
_HITS_TOLD = 100
_NOT_PASSED = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """An answer and who asked for it."""

    tenant: str
    headers: dict[str, str]
    body: bytes


class Gateway:
    """Passes everything on; whole good answers to generation routes are kept and given again.

    The key is a digest of route and body. The caller's own key belongs into it and is there only
    where the guard `tenant-key` stands.
    """

    def __init__(
        self, behind: Port, switches: GuardSwitches, *, tenant_keys: Iterable[str]
    ) -> None:
        self._behind = behind
        self._callers = {f"Bearer {key}" for key in tenant_keys}
        self._switches = switches
        self._answers: OrderedDict[str, _Kept] = OrderedDict()
        self._hits: deque[dict[str, Any]] = deque(maxlen=_HITS_TOLD)
        self._session: aiohttp.ClientSession | None = None

    def app(self) -> web.Application:
        """Answer the application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.cleanup_ctx.append(self._life)
        app.router.add_route("*", "/{path:.*}", self._pass)
        return app

    def told(self) -> list[dict[str, Any]]:
        """Answer the hits, newest last, and whether each gave one tenant another's answer."""
        return list(self._hits)

    async def _life(self, _app: web.Application) -> AsyncIterator[None]:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        )
        yield
        await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        tenant = request.headers.get("Authorization", "")
        is_cached = request.method == "POST" and request.path in _CACHED_PATHS
        if not is_cached or tenant not in self._callers:
            return await self._ask(request, body, None)
        key = self._key(request.path, body, tenant)
        kept = self._answers.get(key)
        if kept is None:
            return await self._ask(request, body, key)
        self._hits.append({"path": request.path, "is_foreign": kept.tenant != tenant})
        return web.Response(body=kept.body, headers={**kept.headers, "x-cache": "HIT"})

    def _key(self, path: str, body: bytes, tenant: str) -> str:
        has_tenant = self._switches.wanted.get(Guard.TENANT_KEY, True)
        parts = [path.encode(), body, tenant.encode() if has_tenant else b""]
        digests = b"".join(hashlib.sha256(part).digest() for part in parts)
        return hashlib.sha256(digests).hexdigest()

    async def _ask(self, request: web.Request, body: bytes, key: str | None) -> web.StreamResponse:
        """Ask the router; where there is a key, a whole good answer is kept under it."""
        if self._session is None:
            return web.Response(status=HTTPStatus.BAD_GATEWAY)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _NOT_PASSED
        }
        url = self._behind.url + request.raw_path
        try:
            async with self._session.request(
                request.method, url, data=body or None, headers=headers
            ) as reply:
                return await self._relay(request, reply, key)
        except aiohttp.ClientError:
            return drop(request)

    async def _relay(
        self, request: web.Request, reply: aiohttp.ClientResponse, key: str | None
    ) -> web.StreamResponse:
        headers = {
            name: value for name, value in reply.headers.items() if name.lower() not in _NOT_PASSED
        }
        marks = {} if key is None else {"x-cache": "MISS", "x-cache-key": key[:16]}
        response = web.StreamResponse(status=reply.status, headers={**headers, **marks})
        await response.prepare(request)
        said = bytearray()
        async for chunk in reply.content.iter_any():
            await response.write(chunk)
            said += chunk
        await response.write_eof()
        if key is not None and reply.status == HTTPStatus.OK:
            tenant = request.headers.get("Authorization", "")
            self._answers[key] = _Kept(
                tenant=tenant, headers={**headers, **marks}, body=bytes(said)
            )
            while len(self._answers) > _ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return response
