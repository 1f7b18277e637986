"""Reads live nodes for the command line: those that were named and those that a router lists."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.address import parse_url, show_url
from fleet.contract import (
    ENGINES,
    ROUTERS,
    AddressRefused,
    FleetError,
    NodeCapture,
    Outbound,
    RouterAccess,
)
from fleet.endpoint import place_of
from fleet.keyless import capture_and_try
from fleet.live import NodeAddress
from fleet.reading import Worker
from fleet.routers.recognise import recognise
from probes.arguments import NodesAsked
from probes.judgement import Check, Kind

ROUTER_CHECK = "router_workers"

#: First and longest pause between two looks of ``--wait``.
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 5.0

#: Labels in which a router advertises a context (smg 1.13: labels of /workers).
_CONTEXT_LABELS = ("context_length", "max_model_len")
_FIGURE = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the nodes answered at one look. ``problems`` are checks about the router itself.

    ``advertised`` is the largest context that a router or a person promises, in tokens.
    """

    captures: tuple[NodeCapture, ...]
    problems: tuple[Check, ...] = ()
    advertised: int | None = None

    @property
    def silent(self) -> tuple[str, ...]:
        """Answer one sentence for each node and router that could not be read."""
        readings = [ENGINES.get(one.engine).read(one) for one in self.captures]
        nodes = [f"{one.node}: {one.problem}" for one in readings if not one.is_read]
        return (*nodes, *(problem.reason for problem in self.problems))


async def look_at_nodes(
    client: Outbound, asked: NodesAsked, *, tell: Callable[[str], None]
) -> Look:
    """Answer what the nodes say, after waiting for them as long as was asked; never raises."""
    load_plugins("fleet.engines")
    load_plugins("fleet.routers")
    deadline = asyncio.get_running_loop().time() + asked.wait_s
    pause_s = _FIRST_PAUSE_S
    while True:
        look = await _look_once(client, asked)
        left_s = deadline - asyncio.get_running_loop().time()
        if not look.silent or left_s <= 0:
            return look
        tell(f"waiting up to {left_s:.0f} s more: {'; '.join(look.silent)}")
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _look_once(client: Outbound, asked: NodesAsked) -> Look:
    found = await _discover(client, asked) if asked.router_url else _Discovered(nodes=asked.nodes)
    captures = await capture_and_try(client, found.nodes, key=asked.key, admin_key=asked.admin_key)
    promised = [one for one in (asked.context, found.context) if one is not None]
    return Look(
        captures=tuple(captures), problems=found.problems, advertised=max(promised, default=None)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Discovered:
    """The nodes to read after a router was asked."""

    nodes: tuple[NodeAddress, ...]
    problems: tuple[Check, ...] = ()
    context: int | None = None


async def _discover(client: Outbound, asked: NodesAsked) -> _Discovered:
    router = RouterAccess(url=asked.router_url, client=client, key=asked.router_key)
    try:
        kind = await recognise(client, asked.router_url, asked.router_key)
        workers = await ROUTERS.get(kind).list_workers(router)
    except FleetError as fault:
        return _Discovered(nodes=asked.nodes, problems=(_problem(asked, str(fault)),))
    return _merge(asked, workers)


def _merge(asked: NodesAsked, workers: tuple[Worker, ...]) -> _Discovered:
    """Add what a router lists to what was named; what it lists and we cannot use is a problem."""
    nodes = list(asked.nodes)
    reasons: list[str] = [] if workers else ["it lists no worker: add the nodes to it first"]
    for worker in workers:
        reasons += _add_worker(nodes, worker, asked.engine)
    problems = tuple(_problem(asked, reason) for reason in reasons)
    return _Discovered(nodes=tuple(nodes), problems=problems, context=_advertised(workers))


def _add_worker(nodes: list[NodeAddress], worker: Worker, engine: str) -> Iterator[str]:
    """Add a worker to the nodes unless it is there already; answer what is wrong with it."""
    address = place_of(worker.url)
    try:
        parse_url(address)
    except AddressRefused as refusal:
        yield str(refusal)
        return
    if worker.role is None:
        yield f"it lists {address} without a role that is known"
        return
    known = next((node for node in nodes if node.url == address), None)
    if known is not None and known.role is not worker.role:
        yield f"it lists {known.name} ({address}) as {worker.role}, but it was named otherwise"
    if known is None:
        number = 1 + sum(node.role is worker.role for node in nodes)
        nodes.append(
            NodeAddress(
                name=f"{worker.role}-{number}",
                url=address,
                role=worker.role,
                engine=engine,
                bootstrap_port=worker.bootstrap_port,
            )
        )


def _advertised(workers: tuple[Worker, ...]) -> int | None:
    labels = [worker.labels.get(name, "") for worker in workers for name in _CONTEXT_LABELS]
    return max((int(label) for label in labels if _FIGURE.fullmatch(label)), default=None)


def _problem(asked: NodesAsked, reason: str) -> Check:
    shown = show_url(asked.router_url)
    return Check(
        check=ROUTER_CHECK,
        target=shown,
        verdict=Verdict.INCONCLUSIVE,
        kind=Kind.CONFIG,
        reason=f"the router {shown} does not tell all its nodes: {reason.rstrip('.')}",
    )
