"""Sweeps stored deployments the way a worker does; a process of its own, under Django.

``fill`` stores a fleet; ``sweep`` reads it and prints one line of JSON with what that took.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import django

django.setup()

from django.conf import settings  # noqa: E402 - Django wants its set-up first
from django.db import connection  # noqa: E402

from common.collecting import collect_rarely  # noqa: E402
from common.registry import load_plugins  # noqa: E402
from fleet.contract import ENGINES  # noqa: E402
from fleet.models import Deployment, Node  # noqa: E402
from fleet.sweep import shards_waiting, sweep_begin, sweep_progress  # noqa: E402
from probes.sweep_conduct import sweep_conduct  # noqa: E402

#: Two prefill and two decode nodes: four pairs are judged for each deployment.
NODES_PER_DEPLOYMENT = 4


def fill(urls: list[str]) -> None:
    """Store the nodes at these addresses, four to a deployment, or move those that are stored."""
    names = [f"d{place:05}" for place in range(0, len(urls), NODES_PER_DEPLOYMENT)]
    Node.objects.all().delete()
    Deployment.objects.all().delete()
    deployments = Deployment.objects.bulk_create(
        Deployment(name=name, model="recorded") for name in names
    )
    Node.objects.bulk_create(
        Node(
            deployment=deployments[place // NODES_PER_DEPLOYMENT],
            name=f"n{place % NODES_PER_DEPLOYMENT}",
            url=url,
            role="decode" if place % 2 else "prefill",
        )
        for place, url in enumerate(urls)
    )


def move(urls: list[str]) -> None:
    """Give the stored nodes these addresses, in order; what is known of them stays."""
    nodes = list(Node.objects.order_by("pk"))
    for node, url in zip(nodes, urls, strict=True):
        node.url = url
    Node.objects.bulk_update(nodes, ["url"], batch_size=1000)


def sweep(routes: int | None, nodes: int | None) -> dict[str, object]:
    """Read the fleet, or its first ``nodes``, asking the first ``routes`` of the engine."""
    load_plugins("fleet.engines")
    load_plugins("probes.gates")
    engine = ENGINES.get("sglang")
    engine.routes = engine.routes[:routes]
    keys = list(Deployment.objects.order_by("pk").values_list("pk", flat=True))
    only = keys[: nodes // NODES_PER_DEPLOYMENT] if nodes else None
    connection.ensure_connection()
    collect_rarely()
    cpu, wall = time.process_time(), time.monotonic()
    begun = sweep_begin(actor="bench", trigger="bench", only=only)
    first = shards_waiting().filter(sweep=begun).values_list("pk", flat=True)[0]
    tasks = sweep_conduct(shard_pk=first)
    spent = time.process_time() - cpu
    lasted = time.monotonic() - wall
    begun.refresh_from_db()
    progress = sweep_progress(begun)
    return {
        "cpu_s": spent,
        "wall_s": lasted,
        "rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "is_over": progress.is_over,
        "shards": tasks,
        "outcomes": dict(progress.outcomes),
        "verdicts": dict(progress.verdicts),
        "timeout_s": settings.SWEEP_TIMEOUT_S,
    }


def main(wish: dict[str, object]) -> None:
    """Do what is asked and print one line."""
    urls = wish.get("urls")
    if wish["way"] == "sweep":
        routes, nodes = wish.get("routes"), wish.get("nodes")
        took = sweep(
            routes if isinstance(routes, int) else None,
            nodes if isinstance(nodes, int) else None,
        )
        sys.stdout.write(f"{json.dumps(took)}\n")
    elif isinstance(urls, list):
        {"fill": fill, "move": move}[str(wish["way"])](urls)
        sys.stdout.write("{}\n")


if __name__ == "__main__":
    main(json.load(sys.stdin))
