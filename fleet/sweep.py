"""Sweeps of a fleet: what is to be read as rows, claimed by workers, counted as it is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet

from common.clock import now
from common.roles import Role, require_role
from common.trail import record
from fleet.models import Deployment, NodeReading, Sweep, SweepShard
from fleet.shards import added_up, shards_of

#: What a sweep may take before the tick gives up what is left of it: for itself and for each node.
SWEEP_LASTS = timedelta(minutes=10)
NODE_LASTS = timedelta(seconds=0.1)
#: At least so long lies between two sweeps that the tick begins.
PAUSE = timedelta(minutes=1)
#: Shards that one wake-up call is sent for at a time.
WOKEN = 8
#: A worker that dies on a shard time after time is not helped by another.
MAX_ATTEMPTS = 3


class SweepError(Exception):
    """What was asked cannot be swept; the text says why and what can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """How far a sweep is, in nodes, and what it found so far.

    ``outcomes`` counts nodes by how asking them went, ``verdicts`` deployments by verdict;
    ``unread`` counts nodes that nobody asked, because their shard was given up.
    """

    sweep: Sweep
    done: int
    total: int
    outcomes: Mapping[str, int]
    verdicts: Mapping[str, int]
    problems: tuple[str, ...]
    unread: int

    @property
    def is_over(self) -> bool:
        """Answer whether nothing more will be read."""
        return self.sweep.ended_at is not None

    @property
    def silent(self) -> dict[str, int]:
        """Answer how many nodes could not be read, by the word for why."""
        return {word: number for word, number in self.outcomes.items() if word != "read"}


def sweep_request(*, person: User) -> Sweep:
    """Begin to read every deployment for a person. Raises NotAllowed, SweepError."""
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="read all deployments")
    with transaction.atomic():
        sweep = sweep_begin(actor=person.get_username(), trigger="person")
        record(actor=person.get_username(), action="sweep_started", subject=str(sweep))
    return sweep


@transaction.atomic
def sweep_begin(*, actor: str, trigger: str, only: Collection[int] | None = None) -> Sweep:
    """Store a sweep and its shards for the workers; ``only`` names deployments by key.

    One at a time: a second would read the same nodes again. The caller wakes workers after its
    commit; the tick finds the rows in any case. Raises SweepError.
    """
    shards = shards_of(_node_counts(only))
    if not shards:
        raise SweepError("there is no node to read: add a deployment and its nodes first")
    try:
        with transaction.atomic():
            sweep = Sweep.objects.create(
                trigger=trigger,
                requested_by=actor,
                node_count=sum(shard.node_count for shard in shards),
            )
    except IntegrityError:
        under_way = Sweep.objects.filter(ended_at=None).first()
        raise SweepError(f"{under_way or 'a sweep'} is under way: wait for it") from None
    deadline_at = now() + SWEEP_LASTS + NODE_LASTS * sweep.node_count
    SweepShard.objects.bulk_create(
        SweepShard(
            sweep=sweep,
            number=number,
            deployments=list(shard.deployments),
            node_count=shard.node_count,
            deadline_at=deadline_at,
        )
        for number, shard in enumerate(shards, start=1)
    )
    return sweep


def _node_counts(only: Collection[int] | None) -> dict[int, int]:
    deployments = Deployment.objects.order_by("pk")
    if only is not None:
        deployments = deployments.filter(pk__in=only)
    counted = deployments.annotate(current=Count("nodes", filter=Q(nodes__retired_at=None)))
    return dict(counted.values_list("pk", "current"))


def deployments_stale(*, older_than: timedelta) -> list[int]:
    """Answer deployments whose newest reading, or whose adding, is longer ago than this."""
    since = now() - older_than
    fresh = NodeReading.objects.filter(taken_at__gt=since).values("node__deployment")
    stale = Deployment.objects.filter(
        nodes__isnull=False, nodes__retired_at=None, added_at__lt=since
    )
    return sorted(stale.exclude(pk__in=fresh).values_list("pk", flat=True).distinct())


def shards_waiting() -> QuerySet[SweepShard]:
    """Answer the shards that are not read yet and that nobody holds."""
    return SweepShard.objects.live().free()


def shards_to_wake() -> list[int]:
    """Answer some shards to wake workers for; whoever reads one takes further ones by itself."""
    return list(shards_waiting().order_by("sweep", "number").values_list("pk", flat=True)[:WOKEN])


def may_sweep_alone() -> bool:
    """Answer whether the tick may begin a sweep: none is under way, and none just was.

    A deployment that cannot be read at all would else be swept at every tick.
    """
    begun = Sweep.objects.filter(Q(ended_at=None) | Q(started_at__gt=now() - PAUSE))
    return not begun.exists()


def shard_claim(*, key: int, owner: str) -> SweepShard | None:
    """Take a shard that nobody holds; what a killed worker counted of it is begun anew."""
    if not SweepShard.objects.live().claim(key, owner=owner):
        return None
    SweepShard.objects.filter(pk=key).update(done_count=0, outcomes={}, verdicts={})
    return SweepShard.objects.get(pk=key)


def shard_count(*, shard: SweepShard, owner: str) -> bool:
    """Store how far a held shard is; answers whether it is still held."""
    held = SweepShard.objects.live().filter(pk=shard.pk, lease_owner=owner)
    return (
        held.update(done_count=shard.done_count, outcomes=shard.outcomes, verdicts=shard.verdicts)
        == 1
    )


@transaction.atomic
def shard_end(*, key: int, problem: str = "") -> None:
    """End a shard, and with its last shard the sweep."""
    shard = SweepShard.objects.get(pk=key)
    # Two last shards that end at once must see each other.
    sweep = Sweep.objects.select_for_update().get(pk=shard.sweep_id)
    SweepShard.objects.live().filter(pk=key).update(
        ended_at=now(), problem=problem[:500], lease_owner="", lease_until=None
    )
    if not sweep.shards.filter(ended_at=None).exists():
        Sweep.objects.filter(pk=sweep.pk, ended_at=None).update(ended_at=now())


def shards_give_up() -> int:
    """End shards that overran or whose workers keep dying; answers how many that were."""
    given_up = 0
    for shard in shards_waiting().filter(deadline_at__lt=now()):
        shard_end(key=shard.pk, problem="not read in time: its nodes keep their last reading")
        given_up += 1
    for shard in shards_waiting().filter(attempts__gte=MAX_ATTEMPTS):
        shard_end(key=shard.pk, problem=f"{MAX_ATTEMPTS} workers died while they read it")
        given_up += 1
    return given_up


def sweep_latest() -> SweepProgress | None:
    """Answer the newest sweep and how far it is."""
    sweep = Sweep.objects.first()
    return None if sweep is None else sweep_progress(sweep)


def sweep_progress(sweep: Sweep) -> SweepProgress:
    """Answer how far a sweep is, from its shards."""
    shards = list(sweep.shards.all())
    return SweepProgress(
        sweep=sweep,
        done=sum(shard.done_count for shard in shards),
        total=sweep.node_count,
        outcomes=added_up(shard.outcomes for shard in shards),
        verdicts=added_up(shard.verdicts for shard in shards),
        unread=sum(one.node_count - one.done_count for one in shards if one.problem),
        problems=tuple(f"shard {one.number}: {one.problem}" for one in shards if one.problem),
    )
