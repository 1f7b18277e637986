"""What a node says of itself: `/server_info`, `/model_info` and `/v1/models`."""

from __future__ import annotations

from typing import Any

from drill.guards import Guard
from drill.loads import ENGINE_MODES, max_running_requests
from drill.node import Node
from drill.server_args import server_args
from drill.settings import DEFAULT_RESERVED_DECODE_TOKENS, NodeSettings, Role
from drill.surface import Surface

_DEFERRED_RELEASE = "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE"
_GRAPH_PHASES = (
    "prefill",
    "decode",
    "target_verify",
    "draft_prefill",
    "draft_decode",
    "draft_extend",
)


def server_info_body(node: Node, port: int) -> dict[str, Any]:
    """Answer `GET /server_info`: arguments, then the scheduler's figures, then one entry a rank."""
    settings = node.settings
    surface = Surface(settings.version)
    body = _arguments(node, port)
    if surface.has_launch_command:
        body["launch_command"] = _launch_command(settings, port)
    body |= {
        "status": "ready",
        "max_total_num_tokens": settings.pool,
        "max_req_input_len": settings.first_refused,
    }
    if surface.has_modern_routes:
        body["startup_time"] = {
            **_startup_time(node),
            "tokenizer_e2e": node.birth.tokenizer_s,
        }
    if surface.has_object_layout:
        body["hicache_object_layout"] = {
            "enabled": settings.has_tiers,
            "backend": _storage_backend(settings),
            "page_size": settings.page_size,
            "hicache_object_layout": {"pools": []},
            "reason": None if settings.has_tiers else "Hierarchical cache is disabled",
        }
    body["internal_states"] = [_internal_state(node, port)]
    if surface.has_modern_routes:
        body["kv_events"] = None
    body["version"] = settings.engine_version
    if surface.has_frontend:
        body["frontend"] = "python"
    return body


def _arguments(node: Node, port: int) -> dict[str, Any]:
    settings = node.settings
    is_decode = settings.role is Role.DECODE
    reserve = settings.reserved_decode_tokens if is_decode else DEFAULT_RESERVED_DECODE_TOKENS
    return {
        "model_path": settings.model,
        "tokenizer_path": settings.model,
        "served_model_name": settings.model,
        **server_args(settings.version),
        **_isolation_arguments(node),
        "api_key": settings.api_key,
        "context_length": settings.context,
        "max_total_tokens": settings.pool,
        "page_size": settings.page_size,
        "host": "127.0.0.1",
        "port": port,
        "random_seed": node.birth.random_seed,
        "disable_radix_cache": is_decode,
        "load_balance_method": (
            "follow_bootstrap_room" if settings.role is Role.PREFILL else "round_robin"
        ),
        "disaggregation_mode": ENGINE_MODES[settings.role],
        "disaggregation_bootstrap_port": settings.bootstrap_port,
        "num_reserved_decode_tokens": reserve,
    }


def _isolation_arguments(node: Node) -> dict[str, Any]:
    """Answer the arguments that scenarios and switched guards change."""
    settings = node.settings
    arguments: dict[str, Any] = {
        "enable_cache_report": settings.reports_cached,
        "enable_hierarchical_cache": settings.has_tiers,
        "hicache_storage_backend": _storage_backend(settings),
    }
    if Surface(settings.version).has_checksum_flag:
        arguments["disaggregation_enable_kv_checksum"] = node.engine.guards.sums_transfers
    return arguments


def _storage_backend(settings: NodeSettings) -> str | None:
    return "file" if settings.has_disk_tier else None


def _internal_state(node: Node, port: int) -> dict[str, Any]:
    settings, surface = node.settings, Surface(node.settings.version)
    state = _arguments(node, port) | {
        "pp_max_micro_batch_size": max_running_requests(settings.pool),
        "world_size": 1,
        "last_gen_throughput": 0.0,
        "memory_usage": _memory_usage(settings, surface),
    }
    deferred = node.world.switches.wanted.get(Guard.DEFERRED_RELEASE)
    if deferred is not None:
        exposed = {"SGLANG_EXPOSE_OWN_ENV_VARS": "1", _DEFERRED_RELEASE: str(int(deferred))}
        state["env_vars"] = exposed
    if surface.has_modern_routes:
        state["startup_time"] = _startup_time(node)
        state["effective_max_running_requests_per_dp"] = max_running_requests(settings.pool)
    if surface.has_frontend:
        state |= {"decode_cuda_graph_bs": [], "decode_cuda_graph_memory_gb": 0.0}
    return state


def _memory_usage(settings: NodeSettings, surface: Surface) -> dict[str, Any]:
    usage = {"weight": 0.001, "kvcache": 0.001, "token_capacity": settings.pool}
    if not surface.has_modern_routes:
        return {**usage, "graph": 0.0}
    return {
        **usage,
        "startup_available": 18.5,
        "token_capacity_swa": None,
        "graph": dict.fromkeys(_GRAPH_PHASES, 0.0),
    }


def _startup_time(node: Node) -> dict[str, Any]:
    return {
        "load_weight": node.birth.load_weight_s,
        "kv_cache_allocation": node.birth.kv_cache_allocation_s,
        "scheduler_e2e": node.birth.scheduler_s,
        "cuda_graph": dict.fromkeys(_GRAPH_PHASES, 0.0),
    }


def _launch_command(settings: NodeSettings, port: int) -> str:
    parts = [
        f"--model-path {settings.model} --host 127.0.0.1 --port {port}",
        f"--context-length {settings.context} --max-total-tokens {settings.pool}",
        f"--page-size {settings.page_size} --enable-metrics",
    ]
    if settings.role is not Role.UNIFIED:
        parts.append(f"--disaggregation-mode {settings.role}")
    if settings.api_key is not None:
        parts.append(f"--api-key {settings.api_key}")
    return " ".join(parts)


def model_info_body(node: Node) -> dict[str, Any]:
    """Answer `GET /model_info`."""
    settings, surface = node.settings, Surface(node.settings.version)
    body: dict[str, Any] = {"model_path": settings.model}
    if surface.has_modern_routes:
        body["served_model_name"] = settings.model
    body |= {
        "tokenizer_path": settings.model,
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
    }
    if not surface.has_modern_routes:
        return body
    body |= {"load_format": "auto", "reasoning_parser": None, "tool_call_parser": None}
    if surface.has_frontend:
        body["disaggregation_mode"] = ENGINE_MODES[settings.role]
    return body | {
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
    }


def models_body(node: Node) -> dict[str, Any]:
    """Answer `GET /v1/models`; `max_model_len` is the context, whatever the pool holds."""
    return {"object": "list", "data": [model_card(node)]}


def model_card(node: Node) -> dict[str, Any]:
    """Answer one entry of `GET /v1/models`."""
    return {
        "id": node.settings.model,
        "object": "model",
        "created": int(node.birth.started_at),
        "owned_by": "sglang",
        "root": node.settings.model,
        "parent": None,
        "max_model_len": node.settings.context,
    }
