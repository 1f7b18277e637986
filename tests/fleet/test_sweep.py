"""Sweeps as rows: begun once, claimed once, counted, given up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from common.clock import now
from common.leases import LEASE_LASTS
from common.roles import NotAllowed
from fleet.models import Deployment, Node, NodeReading, Sweep, SweepShard
from fleet.sweep import (
    MAX_ATTEMPTS,
    SweepError,
    deployments_stale,
    may_sweep_alone,
    shard_claim,
    shard_count,
    shard_end,
    shards_give_up,
    shards_to_wake,
    sweep_begin,
    sweep_progress,
    sweep_request,
)

pytestmark = pytest.mark.django_db


def fleet_of(*sizes: int) -> list[Deployment]:
    made = []
    for number, size in enumerate(sizes):
        deployment = Deployment.objects.create(name=f"d{number}", model="m")
        for place in range(size):
            Node.objects.create(
                deployment=deployment,
                name=f"n{place}",
                url=f"http://127.0.0.1:{9000 + place}",
                role="unified",
            )
        made.append(deployment)
    return made


def test_a_person_with_a_role_begins_it_and_another_is_refused(
    responder: User, outsider: User
) -> None:
    fleet_of(2)
    with pytest.raises(NotAllowed):
        sweep_request(person=outsider)
    assert sweep_request(person=responder).node_count == 2


def test_one_sweep_at_a_time() -> None:
    fleet_of(1)
    sweep_begin(actor="a", trigger="test")
    with pytest.raises(SweepError, match="under way"):
        sweep_begin(actor="b", trigger="test")
    assert Sweep.objects.count() == 1
    assert not may_sweep_alone()


def test_nothing_to_read_is_said() -> None:
    fleet_of(0)
    with pytest.raises(SweepError, match="no node"):
        sweep_begin(actor="a", trigger="test")


def test_retired_nodes_are_not_counted() -> None:
    (deployment,) = fleet_of(3)
    Node.objects.filter(name="n0").update(retired_at=now())
    assert sweep_begin(actor="a", trigger="test").node_count == 2
    assert SweepShard.objects.get().deployments == [deployment.pk]


def test_a_shard_is_held_by_one_worker_and_begun_anew_by_the_next() -> None:
    fleet_of(5)
    sweep_begin(actor="a", trigger="test")
    key = SweepShard.objects.get().pk
    first = shard_claim(key=key, owner="first")
    assert first is not None
    assert shard_claim(key=key, owner="second") is None
    first.done_count, first.outcomes = 3, {"read": 3}
    assert shard_count(shard=first, owner="first")
    # The first worker was killed: its lease ends without a heartbeat.
    SweepShard.objects.update(lease_until=now() - LEASE_LASTS)
    assert shards_to_wake() == [key]
    second = shard_claim(key=key, owner="second")
    assert second is not None
    assert (second.done_count, second.outcomes) == (0, {})
    assert not shard_count(shard=first, owner="first")


def test_the_last_shard_ends_the_sweep_and_counts_add_up() -> None:
    fleet_of(150, 150)
    sweep = sweep_begin(actor="a", trigger="test")
    one, two = SweepShard.objects.all()
    for shard, outcomes in ((one, {"read": 149, "dns": 1}), (two, {"read": 150})):
        assert not sweep_progress(sweep).is_over
        held = shard_claim(key=shard.pk, owner="w")
        assert held is not None
        held.done_count, held.outcomes, held.verdicts = 150, outcomes, {"pass": 1}
        shard_count(shard=held, owner="w")
        shard_end(key=held.pk)
        sweep.refresh_from_db()
    progress = sweep_progress(sweep)
    assert progress.is_over
    assert (progress.done, progress.total, progress.unread) == (300, 300, 0)
    assert progress.outcomes == {"read": 299, "dns": 1}
    assert progress.silent == {"dns": 1}
    assert progress.verdicts == {"pass": 2}
    assert may_sweep_alone() is False
    Sweep.objects.update(started_at=now() - timedelta(minutes=2))
    assert may_sweep_alone()


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"deadline_at": now() - timedelta(seconds=1)}, "not read in time"),
        ({"attempts": MAX_ATTEMPTS}, "workers died"),
    ],
)
def test_a_shard_that_cannot_be_read_is_given_up_and_its_nodes_count_as_unread(
    over: dict[str, object], words: str
) -> None:
    fleet_of(7)
    sweep = sweep_begin(actor="a", trigger="test")
    SweepShard.objects.update(**over)
    assert shards_give_up() == 1
    sweep.refresh_from_db()
    progress = sweep_progress(sweep)
    assert progress.is_over
    assert progress.unread == 7
    assert words in progress.problems[0]


def test_stale_is_what_nobody_read_or_added_lately() -> None:
    read, unread, fresh, empty = fleet_of(1, 1, 1, 0)
    ago = now() - timedelta(minutes=30)
    Deployment.objects.exclude(pk=fresh.pk).update(added_at=ago)
    for deployment, taken_at in ((read, now()), (unread, ago)):
        NodeReading.objects.create(
            node=deployment.nodes.get(), taken_at=taken_at, fingerprint="", document={}
        )
    assert deployments_stale(older_than=timedelta(minutes=10)) == [unread.pk]
    assert empty.pk not in deployments_stale(older_than=timedelta(minutes=10))
