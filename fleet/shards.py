"""Cuts a fleet into shards: whole deployments, about as many nodes each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: Some hundred nodes are worth a task; one task a node costs more than to read it (docs/bench.md).
NODES_PER_SHARD: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Deployments, by key, that one task reads, and how many nodes they have."""

    deployments: tuple[int, ...]
    node_count: int


def shards_of(
    nodes_by_deployment: Mapping[int, int], *, per_shard: int = NODES_PER_SHARD
) -> tuple[Shard, ...]:
    """Answer shards of at most ``per_shard`` nodes, every deployment in one, in order.

    A deployment is judged as a whole, so it is never cut; a larger one is a shard of its own. One
    without nodes is in none, because nothing of it can be read.
    """
    shards: list[Shard] = []
    open_keys: list[int] = []
    open_nodes = 0
    for key, nodes in nodes_by_deployment.items():
        if nodes and open_keys and open_nodes + nodes > per_shard:
            shards.append(Shard(deployments=tuple(open_keys), node_count=open_nodes))
            open_keys, open_nodes = [], 0
        if nodes:
            open_keys.append(key)
            open_nodes += nodes
    if open_keys:
        shards.append(Shard(deployments=tuple(open_keys), node_count=open_nodes))
    return tuple(shards)


def added_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Answer the sum of counts by word, the most frequent first."""
    total: dict[str, int] = {}
    for one in counts:
        for word, number in one.items():
            total[word] = total.get(word, 0) + number
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))
