"""The control endpoint: a redeploy of a node, styles, guards, what the router aborts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web

from drill.books import Trace
from drill.departures import Aborts
from drill.gateway import Gateway
from drill.guards import Guard
from drill.node import Node
from drill.settings import NodeSettings, WrongFigure
from drill.styles import Style
from drill.wire import BadBody, Handler, PortTaken, json_reply, read_object

_FIGURES: dict[str, type] = {
    "engine_version": str,
    "pool": int,
    "context": int,
    "page_size": int,
    "prefill_speed": float,
    "source_s": float,
    "transfer_s": float,
    "offload_s": float,
}


class UnknownField(Exception):
    """A body has a field that the control endpoint does not know, or a value it cannot take."""


class Restarting(Exception):
    """The node is being restarted already."""


class Controlled(Protocol):
    """What the control endpoint needs of a cluster."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Answer the nodes by name."""

    def state(self) -> dict[str, Any]:
        """Answer figures and style."""

    def set_style(self, style: Style) -> None:
        """Switch how foreign slots look."""

    @property
    def gateway(self) -> Gateway | None:
        """Answer the gateway before the router, if there is one."""

    def set_guards(self, wanted: Mapping[Guard, bool]) -> None:
        """Switch guards on and off."""

    def set_aborts(self, aborts: Aborts) -> None:
        """Switch what the router does for a client that left."""

    async def restart(self, name: str, settings: NodeSettings) -> None:
        """Start a node anew. Raises Restarting."""


def control_app(cluster: Controlled) -> web.Application:
    """Answer the application of the control endpoint."""
    control = Control(cluster)
    app = web.Application(middlewares=[_errors])
    app.router.add_get("/", control.state)
    app.router.add_get("/state", control.state)
    app.router.add_get("/gateway", control.gateway)
    app.router.add_post("/style", control.style)
    app.router.add_post("/guards", control.guards)
    app.router.add_post("/router", control.router)
    app.router.add_post("/nodes/{name}/restart", control.restart)
    app.router.add_get("/nodes/{name}/trace", control.trace)
    app.router.add_get("/nodes/{name}/log", control.log)
    return app


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (BadBody, UnknownField, WrongFigure) as error:
        return json_reply({"error": str(error)}, 400)
    except Restarting as error:
        return json_reply({"error": str(error)}, 409)
    except PortTaken as error:
        return json_reply({"error": str(error)}, 500)
    except web.HTTPException as error:
        return json_reply({"error": error.text or error.reason}, error.status)


class Control:
    """The handlers of the control endpoint."""

    def __init__(self, cluster: Controlled) -> None:
        self._cluster = cluster
        self._restarts: set[asyncio.Task[None]] = set()

    async def state(self, _request: web.Request) -> web.StreamResponse:
        """Answer `GET /` and `GET /state`."""
        return json_reply(self._cluster.state())

    async def style(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /style`."""
        body = await _body(request, {"style": str})
        try:
            style = Style(body.get("style", ""))
        except ValueError:
            raise UnknownField(f"style must be one of {', '.join(Style)}") from None
        self._cluster.set_style(style)
        return json_reply(self._cluster.state())

    async def guards(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /guards`: each guard that is named, true or false."""
        body = await _body(request, {str(guard): bool for guard in Guard})
        self._cluster.set_guards({Guard(name): on for name, on in body.items()})
        return json_reply(self._cluster.state())

    async def gateway(self, _request: web.Request) -> web.StreamResponse:
        """Answer `GET /gateway`: what the cache answered, and who had asked first; newest last."""
        gateway = self._cluster.gateway
        return json_reply({"hits": [] if gateway is None else gateway.told()})

    async def router(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /router`."""
        body = await _body(request, {"aborts": str})
        try:
            aborts = Aborts(body.get("aborts", ""))
        except ValueError:
            raise UnknownField(f"aborts must be one of {', '.join(Aborts)}") from None
        self._cluster.set_aborts(aborts)
        return json_reply(self._cluster.state())

    async def restart(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /nodes/{name}/restart` once the node serves again."""
        node = self._node(request)
        figures = await _body(request, _FIGURES) if request.can_read_body else {}
        settings = node.settings.with_figures(**figures)
        # A client that leaves must not leave a node half started.
        work = asyncio.ensure_future(self._cluster.restart(node.name, settings))
        self._restarts.add(work)
        work.add_done_callback(self._restarts.discard)
        await asyncio.shield(work)
        return json_reply(self._cluster.state())

    async def trace(self, request: web.Request) -> web.StreamResponse:
        """Answer `GET /nodes/{name}/trace?last=N`, newest last."""
        traces = list(self._node(request).engine.books.traces)
        return json_reply({"answers": [_as_json(one) for one in traces[-_last(request) :]]})

    async def log(self, request: web.Request) -> web.StreamResponse:
        """Answer `GET /nodes/{name}/log?last=N`, newest last."""
        lines = list(self._node(request).engine.books.log)
        return json_reply({"lines": lines[-_last(request) :]})

    def _node(self, request: web.Request) -> Node:
        name = request.match_info["name"]
        node = self._cluster.nodes.get(name)
        if node is None:
            known = ", ".join(self._cluster.nodes)
            raise web.HTTPNotFound(text=f"no node {name}; there are {known}")
        return node


async def _body(request: web.Request, fields: dict[str, type]) -> dict[str, Any]:
    body = await read_object(request)
    for name, value in body.items():
        kind = fields.get(name)
        if kind is None:
            raise UnknownField(f"unknown field {name}; there are {', '.join(fields)}")
        if type(value) is not kind and (kind, type(value)) != (float, int):
            raise UnknownField(f"{name} must be of type {kind.__name__}")
    return body


def _last(request: web.Request) -> int:
    text = request.query.get("last", "1")
    if not text.isdecimal() or int(text) < 1:
        raise UnknownField(f"last must be a whole number above 0, got {text}")
    return int(text)


def _as_json(trace: Trace) -> dict[str, Any]:
    foreign = set(trace.not_own)
    kinds = [
        ("unwritten" if writer < 0 else "foreign")
        if at in foreign
        else ("own" if writer == trace.serial else "shared")
        for at, writer in enumerate(trace.writers)
    ]
    slots = [
        {"slot": slot, "kind": kind, "writer": trace.rids.get(writer)}
        for slot, kind, writer in zip(trace.slots, kinds, trace.writers, strict=True)
    ]
    return {"rid": trace.rid, "transferred": trace.transferred, "slots": slots}
