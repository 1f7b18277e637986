"""Finds a whole cluster by the address of its router: nodes, roles, bootstrap ports, the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from common.registry import load_plugins
from fleet.address import parse_url, show_url
from fleet.breakers import breakers_of
from fleet.contract import (
    ENGINES,
    ROUTERS,
    AddressRefused,
    Outbound,
    RouterAccess,
    RouterError,
)
from fleet.endpoint import place_of
from fleet.jsontext import NotJson, clean_text, parse_json
from fleet.reading import Role, Worker
from fleet.routers.asking import OK, ask
from fleet.routers.readiness import readiness_of
from fleet.routers.recognise import recognise

_LONGEST_MODEL: Final = 200
_ROLE_ORDER: Final = (Role.PREFILL, Role.DECODE, Role.UNIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterOrder:
    """Which router to ask. ``kind`` and ``engine`` empty: told by its answers.

    ``metrics_url`` is the router's Prometheus address; without it breakers are not read.
    """

    url: str
    kind: str = ""
    engine: str = ""
    model: str = ""
    metrics_url: str = ""
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNode:
    """One node that a router lists and that can be asked."""

    name: str
    url: str
    role: Role
    bootstrap_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stands behind a router. ``problems`` say what was left out or is not well, and why."""

    kind: str
    url: str
    engine: str
    model: str
    nodes: tuple[FoundNode, ...]
    readiness: str
    problems: tuple[str, ...] = ()

    @property
    def counts(self) -> str:
        """Answer how many nodes of each role there are, in words."""
        numbers = ((role, sum(one.role is role for one in self.nodes)) for role in _ROLE_ORDER)
        return ", ".join(f"{number} {role}" for role, number in numbers if number) or "no node"


async def discover(client: Outbound, order: RouterOrder) -> Found:
    """Answer what a router lists. Raises RouterError where it is none or lists nothing usable."""
    load_plugins("fleet.engines")
    load_plugins("fleet.routers")
    kind = order.kind or await recognise(client, order.url, order.key)
    adapter = ROUTERS.get(kind)
    router = RouterAccess(url=order.url, client=client, key=order.key)
    workers = await adapter.list_workers(router)
    nodes, problems = _nodes_of(workers)
    if not nodes:
        why = "; ".join(problems) or "it lists no worker: add the nodes to it first"
        raise RouterError(f"nothing to add from the router at {show_url(order.url)}: {why}")
    model = order.model or await _model_of(router, workers)
    if not model:
        problems.append("the router does not tell one model: name the served model")
    readiness = await readiness_of(router)
    problems += [] if readiness.is_ready else [f"the router calls itself {readiness.text}"]
    problems += await _breaker_problems(client, order.metrics_url)
    return Found(
        kind=kind,
        url=order.url.rstrip("/"),
        engine=order.engine or _engine_of(adapter.usual_engine),
        model=model,
        nodes=nodes,
        readiness=readiness.text,
        problems=tuple(problems),
    )


def _engine_of(usual: str) -> str:
    """Answer the engine that mostly stands behind such a router, if we can read it."""
    return usual if usual in ENGINES else "sglang"


def _nodes_of(workers: Iterable[Worker]) -> tuple[tuple[FoundNode, ...], list[str]]:
    """Answer the nodes by role and address, and what is wrong with any worker."""
    usable: dict[str, tuple[Role, Worker]] = {}
    problems: list[str] = []
    for worker in workers:
        place = place_of(worker.url)
        if problem := _problem_of(worker, place):
            problems.append(problem)
        elif worker.role is not None:
            # Several ranks of one process are one node.
            usable.setdefault(place, (worker.role, worker))
            if not worker.is_healthy:
                problems.append(f"{show_url(place)} is {worker.status or 'not healthy'}")
    nodes: list[FoundNode] = []
    for role in _ROLE_ORDER:
        places = sorted(place for place, (one, _) in usable.items() if one is role)
        nodes += [
            FoundNode(
                name=f"{role}-{number}",
                url=place,
                role=role,
                bootstrap_port=usable[place][1].bootstrap_port,
            )
            for number, place in enumerate(places, start=1)
        ]
    return tuple(nodes), problems


def _problem_of(worker: Worker, place: str) -> str:
    """Answer why a worker cannot be a node; empty where it can."""
    try:
        parse_url(place)
    except AddressRefused as refusal:
        return f"left out: {refusal}"
    if worker.role is None:
        return f"left out: {show_url(place)} is listed without a role that is known"
    return ""


async def _model_of(router: RouterAccess, workers: Iterable[Worker]) -> str:
    """Answer the one model that workers or router name, empty where it is not one."""
    names = {worker.model for worker in workers if worker.model}
    if not names:
        names = await _models_listed(router)
    return names.pop() if len(names) == 1 else ""


async def _models_listed(router: RouterAccess) -> set[str]:
    try:
        reply = await ask(router, "GET", "/v1/models")
        said = parse_json(reply.body) if reply.status == OK else None
    except (RouterError, NotJson):
        return set()
    entries = said.get("data") if isinstance(said, dict) else None
    if not isinstance(entries, list):
        return set()
    names = {entry.get("id") for entry in entries if isinstance(entry, dict)}
    return {
        name
        for name in names
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_MODEL and name == clean_text(name)
    }


async def _breaker_problems(client: Outbound, metrics_url: str) -> list[str]:
    if not metrics_url:
        return []
    try:
        states = await breakers_of(client, metrics_url)
    except RouterError as fault:
        return [str(fault)]
    return [
        f"the circuit breaker of {show_url(url)} is {state}"
        for url, state in sorted(states.items())
        if state != "closed"
    ]
