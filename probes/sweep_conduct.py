"""Conducts the shards of a sweep in one worker: reads, judges, stores, counts, takes the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.conf import settings

from common.heartbeat import Heartbeat
from common.leases import owner_name
from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.contract import Outcome
from fleet.loop_thread import LoopThread
from fleet.models import SweepShard
from fleet.selectors import Opened, deployments_opened, sweeping_client
from fleet.sweep import shard_claim, shard_count, shard_end, shards_waiting
from fleet.sweeping import DeploymentLook, SweepReader
from probes.sweep_news import Swept, swept_settle

#: Nodes that are judged and stored at once; they share a transaction and its queries.
NODES_PER_BATCH = 200


def sweep_conduct(*, shard_pk: int) -> int:
    """Read a shard and, as places become free, further ones of its sweep; answers how many.

    A worker that waits for silent nodes reads the next shard meanwhile. Nothing is done where
    another worker holds the first one.
    """
    owner = owner_name()
    shard = shard_claim(key=shard_pk, owner=owner)
    if shard is None:
        return 0
    load_plugins("fleet.engines")
    with LoopThread() as loop:
        conductor = _Conductor(loop, owner)
        try:
            conductor.conduct(shard)
        finally:
            conductor.close()
    return conductor.taken


@dataclass(slots=True, kw_only=True)
class _Held:
    """A shard that this worker holds, and the deployments of it that are not whole yet."""

    shard: SweepShard
    heartbeat: Heartbeat
    left: dict[int, Opened] = field(default_factory=dict)


class _Conductor:
    """Hands nodes to an event loop that asks, and stores in this thread what comes back."""

    def __init__(self, loop: LoopThread, owner: str) -> None:
        self._loop = loop
        self._owner = owner
        self._held: dict[int, _Held] = {}
        self._client = sweeping_client()
        loop.run(self._client.__aenter__())
        self._reader = SweepReader(
            self._client,
            concurrency=settings.SWEEP_CONCURRENCY,
            timeout_s=settings.SWEEP_TIMEOUT_S,
        )
        self.taken = 0

    def conduct(self, first: SweepShard) -> None:
        """Read the first shard and all that can be had meanwhile, to the end."""
        self._begin(first)
        batch: list[DeploymentLook] = []
        while not self._reader.is_idle or self._take_next(first.sweep_id):
            if self._reader.is_idle:
                continue
            batch += self._loop.run(self._reader.finished())
            if self._reader.is_idle or sum(len(one.looks) for one in batch) >= NODES_PER_BATCH:
                self._settle(batch)
                batch = []
            if self._reader.has_room:
                self._take_next(first.sweep_id)

    def close(self) -> None:
        """Give back what is still held, after a fault: another worker reads it."""
        for held in self._held.values():
            held.heartbeat.__exit__(None, None, None)
            SweepShard.objects.all().release(held.shard.pk, owner=self._owner)
        self._loop.run(self._reader.close())
        self._loop.run(self._client.__aexit__(None, None, None))

    def _take_next(self, sweep: int) -> bool:
        """Begin one more shard of the sweep; answers whether there was one."""
        waiting = shards_waiting().filter(sweep=sweep).values_list("pk", flat=True)
        key = waiting.first()
        shard = None if key is None else shard_claim(key=key, owner=self._owner)
        if shard is None:
            return False
        self._begin(shard)
        return True

    def _begin(self, shard: SweepShard) -> None:
        self.taken += 1
        heartbeat = Heartbeat(SweepShard.objects.all(), shard.pk, owner=self._owner)
        held = _Held(shard=shard, heartbeat=heartbeat.__enter__())
        self._held[shard.pk] = held
        for opened in deployments_opened(shard.deployments):
            if opened.access is None:
                _count(shard, [Outcome.KEY] * len(opened.node_keys), [Verdict.ERROR])
            elif opened.node_keys:
                held.left[opened.deployment.pk] = opened
        self._loop.run(self._ask(held))
        self._show(held)

    async def _ask(self, held: _Held) -> None:
        for key, opened in held.left.items():
            if opened.access is not None:
                self._reader.begin(shard=held.shard.pk, deployment=key, access=opened.access)

    def _settle(self, looks: Iterable[DeploymentLook]) -> None:
        """Store what is whole, under shards that are still ours."""
        mine = [one for one in looks if one.shard in self._held]
        swept = [self._swept(one) for one in mine]
        for look, verdict in zip(mine, swept_settle(swept), strict=True):
            shard = self._held[look.shard].shard
            _count(shard, [one.outcome for one in look.looks], [verdict])
        for key in dict.fromkeys(one.shard for one in mine):
            self._show(self._held[key])

    def _swept(self, look: DeploymentLook) -> Swept:
        opened = self._held[look.shard].left.pop(look.deployment)
        return Swept(look=look, deployment=opened.deployment, node_keys=opened.node_keys)

    def _show(self, held: _Held) -> None:
        """Store how far a shard is; end it when it is whole, let it go when another has it."""
        is_ours = shard_count(shard=held.shard, owner=self._owner)
        if is_ours and not held.left:
            shard_end(key=held.shard.pk)
        if not is_ours or not held.left:
            held.heartbeat.__exit__(None, None, None)
            del self._held[held.shard.pk]


def _count(shard: SweepShard, outcomes: list[Outcome], verdicts: list[Verdict]) -> None:
    shard.done_count += len(outcomes)
    shard.outcomes = _added(shard.outcomes, outcomes)
    shard.verdicts = _added(shard.verdicts, verdicts)


def _added(counts: Mapping[str, int], words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(counts) + Counter(map(str, words)))
