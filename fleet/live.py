"""Asks live nodes for what a reading needs; what comes back passes the allow-list at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from common.clock import now
from fleet.contract import ENGINES, Answer, FleetError, NodeCapture, Outbound, Reply
from fleet.reading import Attestation, Role

DEFAULT_TIMEOUT_S: Final = 10.0
#: Nodes that are asked at the same time.
DEFAULT_CONCURRENCY: Final = 16
_NOT_FOUND: Final = 404
_KEY_REFUSED: Final = (401, 403)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """Where a node is, what it is declared as, and what people vouch for of it."""

    name: str
    url: str
    role: Role
    engine: str = "sglang"
    bootstrap_port: int | None = None
    attested: tuple[Attestation, ...] = ()


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
    return _captured(
        node,
        taken_at,
        {route: adapter.allow(route, answer) for group in groups for route, answer in group},
    )


async def capture_in_turn(  # noqa: PLR0913 - keyword-only from the third on
    client: Outbound,
    node: NodeAddress,
    *,
    key: str = "",
    admin_key: str = "",
    timeout_s: float = DEFAULT_TIMEOUT_S,
    routes: Sequence[Sequence[str]] | None = None,
) -> NodeCapture:
    """Answer the same as ``capture_node``, one route after the other over one kept connection.

    A fifth of the connections, for a sweep. What did not answer its first route is not asked
    further: without that route nothing can be judged. Raises UnknownKey.
    """
    adapter = ENGINES.get(node.engine)
    keys = (key, admin_key) if admin_key and admin_key != key else (key,)
    asking = _Asking(client=client, node=node, keys=keys, timeout_s=timeout_s)
    taken_at = now()
    responses: dict[str, Answer] = {}
    for group in adapter.routes if routes is None else routes:
        found = await _ask_group(asking, group)
        responses |= {route: adapter.allow(route, answer) for route, answer in found}
        if found[-1][1].status == 0 and len(responses) == len(found):
            break
    return _captured(node, taken_at, responses)


def _captured(
    node: NodeAddress, taken_at: datetime, responses: Mapping[str, Answer]
) -> NodeCapture:
    """Answer a capture of a live node, the same whichever way it was asked."""
    return NodeCapture(
        name=node.name,
        engine=node.engine,
        role=node.role,
        url=node.url,
        taken_at=taken_at,
        attested={word.key: word for word in node.attested},
        responses=responses,
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
            return Answer(status=0, error=str(fault), outcome=fault.outcome)
        answer = _as_answer(reply)
        if reply.status not in _KEY_REFUSED:
            break
    return answer


def _as_answer(reply: Reply) -> Answer:
    """Answer the reply as text; the allow-list turns it into what may be kept."""
    return Answer(status=reply.status, text=reply.body.decode("utf-8", errors="replace"))
