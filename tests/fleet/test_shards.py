"""How a fleet is cut into shards, and how counts of shards add up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fleet.shards import added_up, shards_of

FLEETS = st.dictionaries(st.integers(1, 10**6), st.integers(0, 60), max_size=60)


@given(FLEETS, st.integers(1, 50))
def test_every_deployment_with_nodes_is_in_exactly_one_shard(
    fleet: dict[int, int], per_shard: int
) -> None:
    shards = shards_of(fleet, per_shard=per_shard)
    placed = [key for shard in shards for key in shard.deployments]
    assert placed == [key for key, nodes in fleet.items() if nodes]
    for shard in shards:
        assert shard.node_count == sum(fleet[key] for key in shard.deployments)
        assert shard.node_count <= per_shard or len(shard.deployments) == 1


def test_a_fleet_of_five_thousand_nodes_is_twenty_five_tasks() -> None:
    shards = shards_of(dict.fromkeys(range(1250), 4))
    assert [shard.node_count for shard in shards] == [200] * 25


@given(st.lists(st.dictionaries(st.sampled_from(["read", "dns", "tls"]), st.integers(1, 9))))
def test_counts_add_up(counts: list[dict[str, int]]) -> None:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    assert added_up(counts) == dict(total)
    assert list(added_up(counts).values()) == sorted(total.values(), reverse=True)
