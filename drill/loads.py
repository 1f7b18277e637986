"""The load figures of a node: `/v1/loads` and the old `/get_load`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from drill.node import Node
from drill.settings import Role

ENGINE_MODES = {Role.PREFILL: "prefill", Role.DECODE: "decode", Role.UNIFIED: "null"}
TIERS = ("device", "host", "storage")
_PD_QUEUES = (
    "prefill_bootstrap_queue_reqs",
    "prefill_inflight_queue_reqs",
    "decode_prealloc_queue_reqs",
    "decode_transfer_queue_reqs",
    "decode_retracted_queue_reqs",
)


def loads_body(node: Node) -> dict[str, Any]:
    """Answer `GET /v1/loads`. Source: recorded on 0.5.19, 0.5.22 and 0.5.23."""
    return {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": node.settings.engine_version,
        "accelerator": None,
        "num_accelerators": 1,
        "loads": [_rank(node)],
    }


def _rank(node: Node) -> dict[str, Any]:
    pool, queues = node.engine.pool, node.engine.queue_lengths()
    used, capacity = pool.used, pool.capacity
    return {
        "timestamp": time.time(),
        "dp_rank": 0,
        "num_running_reqs": queues["running"],
        "num_waiting_reqs": queues["waiting"],
        "num_waiting_uncached_tokens": 0,
        "num_used_tokens": used,
        "num_total_tokens": used,
        "num_active_tokens": used,
        "max_total_num_tokens": capacity,
        "max_running_requests": max_running_requests(capacity),
        "token_usage": round(used / capacity, 4),
        "gen_throughput": 0.0,
        "cache_hit_rate": round(hit_rate(node), 4),
        "utilization": 0.0,
        "total_prefill_uncached_tokens": node.engine.books.counts["prefill_tokens"],
        "total_prefill_busy_us": 0,
        "decode_moments": None,
        "memory": {
            "weight_gb": 0.001,
            "kv_cache_gb": 0.001,
            "graph_gb": 0.0,
            "token_capacity": capacity,
        },
        "disaggregation": {
            "mode": ENGINE_MODES[node.settings.role],
            **{name: queues.get(name, 0) for name in _PD_QUEUES},
            "kv_transfer_speed_gb_s": 0.0,
            "kv_transfer_latency_ms": 0.0,
        },
        "queues": {
            "waiting": queues["waiting"],
            "grammar": 0,
            "paused": 0,
            "retracted": 0,
            "prealloc_ready": 0,
        },
    }


def hit_rate(node: Node) -> float:
    """Answer which share of all prompt tokens came from a cache."""
    if node.engine.prompts.cache is None:
        return 0.0
    counts = node.engine.books.counts
    cached = sum(counts[f"cached_{tier}"] for tier in TIERS)
    return cached / max(1, cached + counts["prefill_tokens"])


def old_load_body(node: Node) -> list[dict[str, Any]]:
    """Answer `GET /get_load`, which versions before 0.5.21 have."""
    queues = node.engine.queue_lengths()
    in_queues = sum(queues.values()) - queues["running"]
    return [
        {
            "dp_rank": 0,
            "num_reqs": queues["running"] + in_queues,
            "num_waiting_reqs": in_queues,
            "num_tokens": node.engine.pool.used,
            "num_pending_tokens": 0,
            "ts_tic": time.monotonic(),
        }
    ]


def max_running_requests(capacity: int) -> int:
    """Answer the engine's default for a pool: half the pool, at most 4096."""
    return max(1, min(capacity // 2, 4096))
