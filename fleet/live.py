"""Asks live nodes for what a reading needs; what comes back passes the allow-list at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.clock import now
from fleet.contract import ENGINES, Answer, FleetError, NodeCapture, Outbound, Reply
from fleet.reading import Role

DEFAULT_TIMEOUT_S: Final = 10.0
#: Nodes that are asked at the same time.
DEFAULT_CONCURRENCY: Final = 16
_NOT_FOUND: Final = 404
_KEY_REFUSED: Final = (401, 403)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """Where a node is and what it is declared as."""

    name: str
    url: str
    role: Role
    engine: str = "sglang"
    bootstrap_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """One node, the way out to it, and the keys to try in order (never shown)."""

    client: Outbound = field(repr=False)
    node: NodeAddress
    keys: tuple[str, ...] = field(repr=False)
    timeout_s: float


async def capture_fleet(  # noqa: PLR0913 - keyword-only from the third on
    client: Outbound,
    nodes: Iterable[NodeAddress],
    *,
    key: str = "",
    admin_key: str = "",
    timeout_s: float = DEFAULT_TIMEOUT_S,
    concurrency: int = DEFAULT_CONCURRENCY,
) -> tuple[NodeCapture, ...]:
    """Answer the captures of all nodes, in order; a silent node is recorded, never left out.

    Errors: UnknownKey where no adapter has a node's engine.
    """
    places = asyncio.Semaphore(concurrency)

    async def ask(node: NodeAddress) -> NodeCapture:
        async with places:
            return await capture_node(
                client, node, key=key, admin_key=admin_key, timeout_s=timeout_s
            )

    return tuple(await asyncio.gather(*map(ask, nodes)))


async def capture_node(
    client: Outbound,
    node: NodeAddress,
    *,
    key: str = "",
    admin_key: str = "",
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> NodeCapture:
    """Answer what a node says on every route of its engine; a fault is an answer of status 0.

    All routes are asked at once: a wedged scheduler holds one back and must not hide the others.
    ``admin_key`` is tried where the node refuses ``key``. Raises UnknownKey.
    """
    adapter = ENGINES.get(node.engine)
    keys = (key, admin_key) if admin_key and admin_key != key else (key,)
    asking = _Asking(client=client, node=node, keys=keys, timeout_s=timeout_s)
    taken_at = now()
    groups = await asyncio.gather(*(_ask_group(asking, group) for group in adapter.routes))
    return NodeCapture(
        name=node.name,
        engine=node.engine,
        role=node.role,
        url=node.url,
        taken_at=taken_at,
        responses={
            route: adapter.allow(route, answer) for group in groups for route, answer in group
        },
    )


async def _ask_group(asking: _Asking, group: Sequence[str]) -> list[tuple[str, Answer]]:
    """Answer what each alternative said, up to the first that is not 404."""
    answers: list[tuple[str, Answer]] = []
    for route in group:
        answers.append((route, await _ask(asking, route)))
        if answers[-1][1].status != _NOT_FOUND:
            break
    return answers


async def _ask(asking: _Asking, route: str) -> Answer:
    method, _, path = route.partition(" ")
    url = f"{asking.node.url.rstrip('/')}{path}"
    answer = Answer()
    for key in asking.keys:
        try:
            reply = await asking.client.request(method, url, key=key, timeout_s=asking.timeout_s)
        except FleetError as fault:
            return Answer(status=0, error=str(fault))
        answer = _as_answer(reply)
        if reply.status not in _KEY_REFUSED:
            break
    return answer


def _as_answer(reply: Reply) -> Answer:
    """Answer the reply as text; the allow-list turns it into what may be kept."""
    return Answer(status=reply.status, text=reply.body.decode("utf-8", errors="replace"))
