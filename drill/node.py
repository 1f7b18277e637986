"""A node: an engine process that can be started again with other figures."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from drill.decode import DecodeEngine
from drill.engine import Engine, Sight
from drill.fabric import Fabric
from drill.inputs import Job
from drill.prefill import PrefillEngine
from drill.request import Finish, Req
from drill.settings import NodeSettings, Role
from drill.unified import UnifiedEngine
from drill.world import World


class EngineDied(Exception):
    """The engine process ended while a request was in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What differs from one start of a process to the next.

    Source: `random_seed` and the durations in `startup_time` of `/server_info`, in seconds.
    """

    started_at: float
    random_seed: int
    load_weight_s: float
    kv_cache_allocation_s: float
    scheduler_s: float
    tokenizer_s: float

    @classmethod
    def now(cls) -> Birth:
        """Answer the marks of a process that starts now."""
        draw = random.SystemRandom()
        scheduler_s = draw.uniform(1.2, 3.0)
        return cls(
            started_at=time.time(),
            random_seed=draw.randrange(1 << 30),
            load_weight_s=draw.uniform(0.01, 0.1),
            kv_cache_allocation_s=draw.uniform(0.3, 0.9),
            scheduler_s=scheduler_s,
            tokenizer_s=scheduler_s + draw.uniform(5.0, 20.0),
        )


class Ticket:
    """A request on its way through an engine, as its client's handler sees it."""

    def __init__(self, req: Req, engine: Engine) -> None:
        self.req = req
        self.received_at = time.time()
        self._engine = engine
        self._changed = asyncio.Event()
        self._is_dead = False
        req.on_change = self._note

    async def change(self) -> None:
        """Wait for the next token or the end. Raises EngineDied."""
        await self._changed.wait()
        self._changed.clear()
        if self._is_dead and not self.req.finished():
            raise EngineDied

    async def end(self) -> Req:
        """Wait until the request has ended. Raises EngineDied."""
        while not self.req.finished():
            await self.change()
        return self.req

    def die(self) -> None:
        """Tell the handler that the engine is gone."""
        self._is_dead = True
        self._changed.set()

    def give_up(self) -> None:
        """Abort the request unless it has ended or its engine has: its client left."""
        if self._is_dead or self.req.finished():
            return
        self._engine.abort(self.req)
        self._engine.books.counts["aborted"] += 1

    def cancel(self) -> None:
        """Abort the request on demand and tell its client."""
        self.give_up()
        if not self.req.finished() and self.req.to_finish is None:
            self.req.finished_reason = Finish(kind="abort", message="Abort in waiting queue")
        self._changed.set()

    def _note(self, _req: Req) -> None:
        self._changed.set()


class Node:
    """One node of the cluster: settings, the running engine, and the requests in it."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        fabric: Fabric,
        sight: Sight,
        wake: Callable[[], None],
        world: World | None = None,
    ) -> None:
        self.world = world or World()
        self._fabric = fabric
        self._sight = sight
        self._wake = wake
        self.starts = 0
        self.tickets: set[Ticket] = set()
        self._start(settings)

    @property
    def name(self) -> str:
        """Answer the name of the node."""
        return self.settings.name

    def _start(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.birth = Birth.now()
        self.starts += 1
        self.engine = self._engine(settings)
        if settings.role is Role.PREFILL:
            self._fabric.bootstrap_ports.add(settings.bootstrap_port)

    def submit(self, job: Job) -> Ticket:
        """Hand a job to the engine and answer its ticket."""
        req = Req(
            rid=job.rid or uuid.uuid4().hex,
            serial=self.world.origins.serial_of(job.bootstrap.room, self.settings.role),
            input_ids=list(job.input_ids),
            max_new_tokens=job.max_new_tokens,
            bootstrap=job.bootstrap,
            salt=job.salt,
        )
        ticket = Ticket(req, self.engine)
        self.tickets.add(ticket)
        self.engine.submit(req)
        self._wake()
        return ticket

    def close(self, ticket: Ticket) -> None:
        """Forget a ticket, aborting what has not ended."""
        self.tickets.discard(ticket)
        ticket.give_up()
        self._wake()

    def kill(self) -> None:
        """End the process: what is in it is lost, other nodes lose their legs."""
        self.engine.die()
        for ticket in self.tickets:
            ticket.die()
        self.tickets.clear()
        self._wake()

    def start_again(self, settings: NodeSettings) -> None:
        """Start a new process, with fresh memory and counters."""
        self._start(settings)
        self._wake()

    def _engine(self, settings: NodeSettings) -> Engine:
        sight, clock, world = self._sight, time.monotonic, self.world
        if settings.role is Role.UNIFIED:
            return UnifiedEngine(settings, sight=sight, clock=clock, world=world)
        kind = PrefillEngine if settings.role is Role.PREFILL else DecodeEngine
        return kind(settings, sight=sight, clock=clock, fabric=self._fabric, world=world)
