"""The HTTP server of the router: sglang-router 0.3.2's surface."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator, Iterable

from aiohttp import web

from drill.departures import Aborts, Departures
from drill.router_answers import Call, new_request_id
from drill.router_forward import Forwarder
from drill.router_jobs import RouterJobs
from drill.wire import MAX_BODY_BYTES, BadBody, Handler, json_reply, read_object
from drill.workers import DECODE, PREFILL, Registry, Worker

_FORWARDED_HEADERS = ("Authorization", "X-Request-ID", "traceparent")
_CONTROL_PREFIXES = ("/workers", "/get_loads", "/flush_cache")
_CHAT = "/v1/chat/completions"
_NOT_HANDED_ON = {_CHAT: ("rid", "cache_salt"), "/generate": ("cache_salt",)}
"""Source: sglang-router 0.3.2, which reads bodies into typed requests and drops other fields."""
_INFERENCE = ("/generate", "/v1/completions", _CHAT)


class Router:
    """A router process: its workers, its tenants' keys, its handlers."""

    def __init__(
        self,
        *,
        tenant_keys: Iterable[str],
        router_key: str | None = None,
        health_interval_s: float = 5.0,
        aborts: Aborts = Aborts.BOTH,
    ) -> None:
        self.registry = Registry()
        self.departures = Departures(aborts)
        self._tenant_keys = tuple(tenant_keys)
        self._router_key = router_key
        self._jobs = RouterJobs(self.registry, health_interval_s=health_interval_s)

    def app(self) -> web.Application:
        """Answer the application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self.middleware])
        app.cleanup_ctx.append(self._life)
        routes: dict[str, Handler] = {
            "/workers": self._list,
            "/workers/{id}": self._get,
            "/health": self._ok,
            "/liveness": self._ok,
            "/readiness": self._readiness,
            "/health_generate": self._health_generate,
            "/get_server_info": self._server_info,
            "/get_model_info": self._model_info,
            "/v1/models": self._models,
            "/get_loads": self._loads,
        }
        for path, handler in routes.items():
            app.router.add_get(path, handler, allow_head=False)
        app.router.add_post("/workers", self._add)
        app.router.add_put("/workers/{id}", self._update)
        app.router.add_delete("/workers/{id}", self._remove)
        app.router.add_post("/flush_cache", self._flush)
        for path in _INFERENCE:
            app.router.add_post(path, self._infer)
        return app

    async def _life(self, _app: web.Application) -> AsyncIterator[None]:
        async with self._jobs:
            yield
            await self.departures.close()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check keys; unknown routes and methods answer 404 without a body."""
        if not self._is_allowed(request):
            return web.Response(status=401)
        try:
            response = await handler(request)
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
            return web.Response(status=404)
        except BadBody as error:
            return json_reply({"error": str(error), "code": "BAD_REQUEST"}, 400)
        if not response.prepared:
            response.headers.setdefault("x-request-id", new_request_id(request.path))
            response.headers["access-control-allow-origin"] = "*"
        return response

    def _is_allowed(self, request: web.Request) -> bool:
        keys: tuple[str, ...] = ()
        if request.path in _INFERENCE:
            keys = self._tenant_keys
        elif request.path.startswith(_CONTROL_PREFIXES) and self._router_key is not None:
            keys = (self._router_key,)
        if not keys:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        known = [secrets.compare_digest(given.encode(), key.encode()) for key in keys]
        return scheme.lower() == "bearer" and any(known)

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        body = await read_object(request)
        prompt = body.get("prompt")
        if request.path == "/v1/completions" and not _is_text(prompt):
            return web.Response(
                text=(
                    "Failed to deserialize the JSON body into the target type: prompt: data did "
                    "not match any variant of untagged enum StringOrArray"
                ),
                status=422,
            )
        for name in _NOT_HANDED_ON.get(request.path, ()):
            body.pop(name, None)
        headers = {
            name: request.headers[name] for name in _FORWARDED_HEADERS if name in request.headers
        }
        call = Call(
            path=request.path,
            body=body,
            headers=headers,
            request_id=request.headers.get("X-Request-ID") or new_request_id(request.path),
        )
        forwarder = Forwarder(self.registry, self._jobs.session, self.departures)
        return await forwarder.forward(call, request)

    async def _list(self, _request: web.Request) -> web.StreamResponse:
        workers = self.registry.all()
        stats = {
            "prefill_count": self.registry.count(PREFILL),
            "decode_count": self.registry.count(DECODE),
            "regular_count": self.registry.count("regular"),
        }
        listed = [worker.as_json() for worker in workers]
        return json_reply({"workers": listed, "total": len(listed), "stats": stats})

    async def _get(self, request: web.Request) -> web.StreamResponse:
        worker = self._worker(request)
        return worker if isinstance(worker, web.Response) else json_reply(worker.as_json())

    def _worker(self, request: web.Request) -> Worker | web.Response:
        """Answer the worker that a path names, or the refusal."""
        name = request.match_info["id"]
        try:
            uuid.UUID(name)
        except ValueError:
            message = f"Invalid worker_id '{name}' (expected UUID)"
            return json_reply({"error": message, "code": "BAD_REQUEST"}, 400)
        worker = self.registry.get(name)
        if worker is not None:
            return worker
        return json_reply({"error": f"Worker {name} not found", "code": "WORKER_NOT_FOUND"}, 404)

    async def _add(self, request: web.Request) -> web.StreamResponse:
        body = await read_object(request)
        url = body.get("url")
        if not isinstance(url, str):
            return web.Response(
                text="Failed to deserialize the JSON body into the target type: "
                "missing field `url`",
                status=422,
            )
        worker = self.add(
            Worker(
                url=url.rstrip("/"),
                wanted_type=str(body.get("worker_type", "regular")),
                bootstrap_port=body.get("bootstrap_port"),
                model_id=body.get("model_id"),
                api_key=body.get("api_key"),
                labels={str(key): str(value) for key, value in (body.get("labels") or {}).items()},
                priority=body.get("priority", 50),
            )
        )
        location = f"/workers/{worker.id}"
        accepted = {
            "status": "accepted",
            "worker_id": worker.id,
            "url": worker.url,
            "location": location,
            "message": "Worker addition queued for background processing",
        }
        return json_reply(accepted, 202, headers={"location": location})

    def add(self, worker: Worker) -> Worker:
        """Add a worker and register it in the background; a known URL changes nothing."""
        known = self.registry.add(worker)
        if known is worker:
            self._jobs.register(worker)
        return known

    async def _update(self, request: web.Request) -> web.StreamResponse:
        """Take priority, cost and labels; every other field is accepted without effect."""
        worker = self._worker(request)
        if isinstance(worker, web.Response):
            return worker
        body = await read_object(request)
        worker.priority = body.get("priority", worker.priority)
        worker.cost = body.get("cost", worker.cost)
        labels = body.get("labels") or {}
        worker.metadata |= {str(key): str(value) for key, value in labels.items()}
        return self._accepted(worker.id, "update")

    async def _remove(self, request: web.Request) -> web.StreamResponse:
        worker = self._worker(request)
        if isinstance(worker, web.Response):
            return worker
        self.registry.remove(worker.id)
        return self._accepted(worker.id, "removal")

    def _accepted(self, worker_id: str, what: str) -> web.Response:
        message = f"Worker {what} queued for background processing"
        accepted = {"status": "accepted", "worker_id": worker_id, "message": message}
        return json_reply(accepted, 202)

    async def _ok(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text="OK")

    async def _readiness(self, _request: web.Request) -> web.StreamResponse:
        if not self.registry.is_ready:
            reason = "insufficient healthy workers"
            return json_reply({"status": "not ready", "reason": reason}, 503)
        healthy, total = len(self.registry.healthy), len(self.registry.all())
        return json_reply({"status": "ready", "healthy_workers": healthy, "total_workers": total})

    async def _health_generate(self, _request: web.Request) -> web.StreamResponse:
        if self.registry.healthy:
            return web.Response(text="At least one router has healthy workers")
        return web.Response(text="No routers with healthy workers", status=503)

    async def _server_info(self, _request: web.Request) -> web.StreamResponse:
        body = {
            "router_manager": True,
            "routers_count": 1,
            "workers_count": len(self.registry.all()),
        }
        return _as_text(body)

    async def _model_info(self, _request: web.Request) -> web.StreamResponse:
        for worker in self.registry.healthy:
            info = await self._jobs.ask(worker, "/get_model_info")
            if info is not None:
                return json_reply(info)
        return web.Response(status=503)

    async def _models(self, _request: web.Request) -> web.StreamResponse:
        names = dict.fromkeys(one.model_id for one in self.registry.all() if one.is_registered)
        data = [{"id": name, "object": "model", "owned_by": "local"} for name in names]
        return _as_text({"object": "list", "data": data})

    async def _loads(self, _request: web.Request) -> web.StreamResponse:
        loads = [{"worker": one.url, "load": one.load} for one in self.registry.all()]
        return json_reply({"workers": loads})

    async def _flush(self, _request: web.Request) -> web.StreamResponse:
        workers = self.registry.all()
        await asyncio.gather(*(self._jobs.ask(one, "/flush_cache") for one in workers))
        count = len(workers)
        body = {
            "status": "success",
            "message": f"Successfully flushed cache on all {count} HTTP workers",
            "workers_flushed": count,
            "total_http_workers": count,
            "total_workers": count,
        }
        return json_reply(body)


def _is_text(prompt: object) -> bool:
    if isinstance(prompt, str):
        return True
    return isinstance(prompt, list) and all(isinstance(part, str) for part in prompt)


def _as_text(body: object) -> web.Response:
    response = json_reply(body)
    response.headers["Content-Type"] = "text/plain; charset=utf-8"
    return response
