"""The Prometheus text of a node: `/metrics` with the engine's names and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drill.loads import ENGINE_MODES, TIERS, hit_rate
from drill.node import Node
from drill.settings import Role
from drill.surface import Surface


def metrics_text(node: Node) -> str:
    """Answer `GET /metrics`. Source: recorded on 0.5.19, 0.5.22 and 0.5.23."""
    lines = [*_gauges(node), *_counters(node), *_cache(node), *_http(node)]
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, samples: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP {name} {name.removeprefix('sglang:').replace('_', ' ')}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples.items():
        yield f"{name}{{{labels}}} {float(value)}"


def _labels(**labels: str) -> str:
    return ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))


def _engine_type(node: Node) -> str:
    role = node.settings.role
    return "unified" if role is Role.UNIFIED else ENGINE_MODES[role]


def _gauges(node: Node) -> Iterator[str]:
    labels = _labels(
        engine_type=_engine_type(node),
        model_name=node.settings.model,
        moe_ep_rank="0",
        pp_rank="0",
        tp_rank="0",
    )
    for name, value in _gauge_values(node).items():
        yield from _family(f"sglang:{name}", "gauge", {labels: value})


def _gauge_values(node: Node) -> dict[str, float]:
    engine, settings = node.engine, node.settings
    surface = Surface(settings.version)
    queues, used = engine.queue_lengths(), engine.pool.used
    usage = used / settings.pool
    values: dict[str, float] = {
        "num_running_reqs": queues["running"],
        "num_queue_reqs": queues["waiting"],
        "num_used_tokens": used,
        "token_usage": usage,
        "cache_hit_rate": hit_rate(node),
        "gen_throughput": 0.0,
        "num_grammar_queue_reqs": 0,
        "num_paused_reqs": 0,
        "num_retracted_reqs": 0,
    }
    for name in ("prefill_bootstrap", "prefill_inflight", "decode_prealloc", "decode_transfer"):
        values[f"num_{name}_queue_reqs"] = queues.get(f"{name}_queue_reqs", 0)
    if surface.has_modern_routes:
        values |= {
            "max_total_num_tokens": settings.pool,
            "context_len": settings.context,
            "page_size": settings.page_size,
            "num_pages": engine.pool.page_count,
            "full_token_usage": usage,
            "kv_available_tokens": engine.pool.available,
            "kv_evictable_tokens": engine.pool.cached_pages * settings.page_size,
            "kv_used_tokens": used,
        }
    if surface.has_deferred_release_metrics:
        values["num_decode_deferred_kv_release_reqs"] = engine.held
    return values


def _counters(node: Node) -> Iterator[str]:
    counts = node.engine.books.counts
    labels = _labels(
        engine_type=_engine_type(node), is_streaming="false", model_name=node.settings.model
    )
    for name, key in (
        ("prompt_tokens_total", "prompt_tokens"),
        ("generation_tokens_total", "generation_tokens"),
        ("num_requests_total", "requests"),
        ("num_aborted_requests_total", "aborted"),
        ("num_transfer_failed_reqs_total", "transfer_failed"),
        ("num_bootstrap_failed_reqs_total", "bootstrap_failed"),
    ):
        yield from _family(f"sglang:{name}", "counter", {labels: counts[key]})


def _cache(node: Node) -> Iterator[str]:
    """Answer the families of a cache that has been used, and those of tiers where there are any."""
    engine, counts = node.engine, node.engine.books.counts
    labels: dict[str, str] = {
        "engine_type": _engine_type(node),
        "model_name": node.settings.model,
    }
    cached = {
        _labels(cache_source=tier, **labels): float(counts[f"cached_{tier}"])
        for tier in TIERS
        if counts[f"cached_{tier}"]
    }
    if cached:
        yield from _family("sglang:cached_tokens_total", "counter", cached)
    if engine.prompts.evicted_tokens:
        evicted = {_labels(**labels): float(engine.prompts.evicted_tokens)}
        yield from _family("sglang:evicted_tokens_total", "counter", evicted)
    host = engine.prompts.host
    if host is not None:
        size = node.settings.page_size
        for name, pages in (("used", host.held), ("total", host.capacity)):
            figure = {_labels(**labels): float(pages * size)}
            yield from _family(f"sglang:hicache_host_{name}_tokens", "gauge", figure)
    if Surface(node.settings.version).has_deferred_release_metrics and counts["deferred_releases"]:
        drained = {_labels(outcome="drained", **labels): float(counts["deferred_releases"])}
        yield from _family("sglang:decode_deferred_kv_release_total", "counter", drained)


def _http(node: Node) -> Iterator[str]:
    if not Surface(node.settings.version).has_modern_routes:
        return
    samples = {
        _labels(endpoint=endpoint, method=method, status_code=str(status)): float(count)
        for (endpoint, method, status), count in node.engine.books.http.items()
    }
    yield from _family("sglang:http_responses_total", "counter", samples)
