"""Reads many deployments at the same time with bounded concurrency; pure asking, no database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleet.access import DeploymentAccess
from fleet.contract import ENGINES, NodeCapture, Outbound, Outcome
from fleet.live import NodeAddress, capture_in_turn
from fleet.reading import Reading

#: Nodes that are asked at the same time by one worker.
DEFAULT_CONCURRENCY: Final = 64
DEFAULT_TIMEOUT_S: Final = 5.0
_NOT_FOUND: Final = 404
_KEY_REFUSED: Final = frozenset({401, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLook:
    """One node as a sweep found it: its reading, and in one word how asking it went."""

    reading: Reading
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentLook:
    """One deployment, every node of it asked; ``shard`` is the one it was asked for."""

    shard: int
    deployment: int
    access: DeploymentAccess
    looks: tuple[NodeLook, ...]

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Answer the readings of all nodes."""
        return tuple(look.reading for look in self.looks)


class SweepReader:
    """Asks nodes of many deployments, never more than ``concurrency`` nodes at a time.

    Deployments come back as each is whole, in any order: one that waits for a silent node holds
    back no other. Must be used inside one event loop.
    """

    def __init__(
        self,
        client: Outbound,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        routes: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self._client = client
        self._concurrency = concurrency
        self._places = asyncio.Semaphore(concurrency)
        self._timeout_s = timeout_s
        self._routes = routes
        self._running: set[asyncio.Task[DeploymentLook]] = set()
        self._unfinished = 0

    @property
    def is_idle(self) -> bool:
        """Answer whether nothing is under way."""
        return not self._running

    @property
    def has_room(self) -> bool:
        """Answer whether places would stay empty if nothing more were begun."""
        return self._unfinished < 2 * self._concurrency

    def begin(self, *, shard: int, deployment: int, access: DeploymentAccess) -> None:
        """Begin to ask every node of a deployment; the event loop must be running."""
        self._unfinished += len(access.nodes)
        task = asyncio.create_task(self._look(shard, deployment, access))
        self._running.add(task)

    async def finished(self) -> list[DeploymentLook]:
        """Wait until at least one deployment is whole, and answer all that are.

        Raises what an adapter must not raise: that is our own fault.
        """
        done, self._running = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        return [task.result() for task in done]

    async def close(self) -> None:
        """Drop what is under way."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running = set()

    async def _look(self, shard: int, deployment: int, access: DeploymentAccess) -> DeploymentLook:
        looks = await asyncio.gather(*(self._ask(node, access) for node in access.nodes))
        return DeploymentLook(shard=shard, deployment=deployment, access=access, looks=tuple(looks))

    async def _ask(self, node: NodeAddress, access: DeploymentAccess) -> NodeLook:
        try:
            async with self._places:
                capture = await capture_in_turn(
                    self._client,
                    node,
                    key=access.node_key,
                    admin_key=access.admin_key,
                    timeout_s=self._timeout_s,
                    routes=self._routes,
                )
        finally:
            self._unfinished -= 1
        reading = ENGINES.get(node.engine).read(capture)
        return NodeLook(reading=reading, outcome=outcome_of(capture, reading))


def outcome_of(capture: NodeCapture, reading: Reading) -> Outcome:
    """Answer in one word how asking a node went; ``read`` only where its reading can be judged."""
    if reading.is_read:
        return Outcome.READ
    # The route that decides is asked first; 404 only sends on to its alternative.
    answers = list(capture.responses.values())
    deciding = next((one for one in answers if one.status != _NOT_FOUND), None)
    if deciding is None:
        return Outcome.BAD_ANSWER
    if deciding.status in _KEY_REFUSED:
        return Outcome.KEY
    return deciding.outcome or Outcome.BAD_ANSWER
