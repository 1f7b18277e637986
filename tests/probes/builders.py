"""Readings built by hand, with the figures an SGLang engine would show for a pool and context."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fleet.reading import Rank, Reading, Role

TAKEN_AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def limit_of(pool: int, context: int) -> int:
    """Answer the max_req_input_len that SGLang makes of a pool and a context."""
    return min(context - 1, pool - 1) - 5


def node(
    name: str,
    role: Role,
    *,
    pool: int | None = 20_480,
    context: int | None = 16_384,
    version: str = "0.5.23",
    **over: Any,  # noqa: ANN401 - any field of a reading
) -> Reading:
    """Answer a reading of a healthy SGLang node with these figures."""
    figures: dict[str, Any] = {
        "node": name,
        "engine": "sglang",
        "role": role,
        "taken_at": TAKEN_AT,
        "reported_role": role,
        "version": version,
        "context": context,
        "first_refused": limit_of(pool, context) if pool and context else None,
        "ranks": (Rank(index=0, token_capacity=pool, reported_pool=pool),),
        "pool": pool,
        "page_size": 64,
        "allow_auto_truncate": False,
        "layout": {
            "quantization": "fp8",
            "kv_cache_dtype": "fp8_e4m3",
            "page_size": "64",
            "speculative_algorithm": "null",
            "weights": "m - 1",
        },
        "parallel": {"tp_size": "8", "dp_size": "1"},
        "started": "2026-11-29T08:00:00Z",
    }
    return Reading(**(figures | over))


def prefill(name: str = "prefill-1", **over: Any) -> Reading:  # noqa: ANN401 - as above
    """Answer a healthy prefill node."""
    return node(name, Role.PREFILL, **over)


def decode(name: str = "decode-1", **over: Any) -> Reading:  # noqa: ANN401 - as above
    """Answer a healthy decode node."""
    return node(name, Role.DECODE, **over)


def unified(name: str = "node-1", **over: Any) -> Reading:  # noqa: ANN401 - as above
    """Answer a healthy unified node."""
    return node(name, Role.UNIFIED, **over)
