"""The HTTP server of a node: SGLang's routes for generation and for looking at it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from drill import tokenizer
from drill.generation_http import chat, completions, generate
from drill.inputs import BadInput, read_messages
from drill.loads import loads_body, old_load_body
from drill.metrics import metrics_text
from drill.node import Node
from drill.replies import flat_error
from drill.server_info import model_card, model_info_body, models_body, server_info_body
from drill.surface import Surface
from drill.wire import MAX_BODY_BYTES, BadBody, Handler, Port, json_reply, read_object

_HEALTH_TIMEOUT_S = 20.0
"""Source: SGLANG_HEALTH_CHECK_TIMEOUT."""
_HEALTH_POLL_S = 0.05
_OPEN_PREFIXES = ("/health", "/metrics", "/ready")
_FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)


def node_app(node: Node, port: Port) -> web.Application:
    """Answer the application of a node that has just started."""
    pages = NodePages(node, port)
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[pages.middleware])
    app.on_response_prepare.append(_as_uvicorn)
    for path, handler in pages.reading_routes().items():
        app.router.add_get(path, handler)
    for path, handler in pages.acting_routes().items():
        app.router.add_post(path, handler)
    return app


async def _as_uvicorn(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "uvicorn"


class NodePages:
    """The handlers of one node."""

    def __init__(self, node: Node, port: Port) -> None:
        self._node = node
        self._port = port
        self._surface = Surface(node.settings.version)

    def reading_routes(self) -> dict[str, Handler]:
        """Answer the routes that look, those the version has."""
        node = self._node

        def server_info() -> dict[str, Any]:
            return server_info_body(node, self._port.number)

        routes: dict[str, Handler] = {
            "/health": self._health,
            "/health_generate": self._health,
            "/flush_cache": self._flush,
            "/get_server_info": _page(server_info),
            "/get_model_info": _page(lambda: model_info_body(node)),
            "/v1/models": _page(lambda: models_body(node)),
            "/v1/models/{model}": self._model,
            "/metrics": self._metrics,
            "/ping": self._empty,
        }
        if self._surface.has_modern_routes:
            routes["/server_info"] = _page(server_info)
            routes["/model_info"] = _page(lambda: model_info_body(node))
            routes["/v1/loads"] = _page(lambda: loads_body(node))
        if self._surface.has_old_load:
            routes["/get_load"] = _page(lambda: old_load_body(node))
        if self._surface.has_ready:
            routes["/ready"] = self._empty
        return routes

    def acting_routes(self) -> dict[str, Handler]:
        """Answer the routes that do something."""
        return {
            "/generate": self._generate,
            "/v1/completions": self._completions,
            "/v1/chat/completions": self._chat,
            "/tokenize": self._tokenize,
            "/v1/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            "/v1/detokenize": self._detokenize,
            "/flush_cache": self._flush,
            "/abort_request": self._abort,
        }

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, turn bad bodies into 400, count the answer."""
        try:
            response = (
                await handler(request)
                if self._is_allowed(request)
                else json_reply({"error": "Unauthorized"}, 401)
            )
        except BadBody as error:
            response = json_reply(flat_error(str(error), 400), 400)
        except web.HTTPNotFound:
            response = json_reply({"detail": "Not Found"}, 404)
        except web.HTTPMethodNotAllowed:
            response = json_reply({"detail": "Method Not Allowed"}, 405)
        books = self._node.engine.books
        books.http[request.path, request.method, response.status] += 1
        return response

    def _is_allowed(self, request: web.Request) -> bool:
        key = self._node.settings.api_key
        if key is None or request.path.startswith(_OPEN_PREFIXES):
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(given.encode(), key.encode())

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        return await generate(self._node, request)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await completions(self._node, request)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await chat(self._node, request)

    async def _health(self, _request: web.Request) -> web.StreamResponse:
        """Answer 200 once the scheduler would take one token more, 503 if it does not in time."""
        engine = self._node.engine
        waits = int(_HEALTH_TIMEOUT_S / _HEALTH_POLL_S)
        for _ in range(waits):
            if not engine.is_blocked:
                return web.Response()
            await asyncio.sleep(_HEALTH_POLL_S)
        return web.Response(status=503)

    async def _empty(self, _request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def _metrics(self, _request: web.Request) -> web.StreamResponse:
        text = metrics_text(self._node)
        return web.Response(
            body=text.encode(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _model(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["model"]
        if name == self._node.settings.model:
            return json_reply(model_card(self._node))
        return json_reply(flat_error(f"The model '{name}' does not exist", 404), 404)

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        ids = _token_ids(await read_object(request))
        length = self._node.settings.context
        return json_reply({"tokens": ids, "count": len(ids), "max_model_len": length})

    async def _detokenize(self, request: web.Request) -> web.StreamResponse:
        ids = (await read_object(request)).get("tokens")
        if not isinstance(ids, list) or not all(type(token) is int for token in ids):
            raise BadBody("'tokens' must be a list of token ids.")
        return json_reply({"text": tokenizer.decode(ids)})

    async def _flush(self, _request: web.Request) -> web.StreamResponse:
        engine = self._node.engine
        if engine.held or any(engine.queue_lengths().values()):
            return web.Response(text="Flush cache failed.\n", status=400)
        engine.prompts.flush()
        return web.Response(text=_FLUSHED)

    async def _abort(self, request: web.Request) -> web.StreamResponse:
        """Abort by the beginning of a request id, or all, as SGLang does."""
        body = await read_object(request)
        prefix, is_all = body.get("rid") or "", body.get("abort_all") is True
        for ticket in list(self._node.tickets):
            if is_all or (prefix and ticket.req.rid.startswith(prefix)):
                ticket.cancel()
        return web.Response()


def _token_ids(body: Mapping[str, Any]) -> list[int]:
    """Answer the ids of a prompt, or of messages in the chat template. Raises BadBody."""
    if body.get("messages") is not None:
        try:
            return tokenizer.encode_chat(read_messages(body["messages"]))
        except BadInput as error:
            raise BadBody(str(error)) from None
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise BadBody("'prompt' must be a string.")
    ids = tokenizer.encode(prompt)
    return [tokenizer.BOS, *ids] if body.get("add_special_tokens", True) is True else ids


def _page(body: Callable[[], object]) -> Handler:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return json_reply(body())

    return handler
