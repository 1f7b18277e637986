"""The allow-list of SGLang: which fields of which answer are kept (design, safety rule 3).

Source: /server_info of 0.5.5 and 0.5.19 to 0.5.23, which holds every start argument, keys included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from fleet.contract import Answer
from fleet.engines.answers import OK, Reduction, drop_body, reduce_json
from fleet.engines.documents import Shape, as_list, as_object, keep
from fleet.engines.partly import PartialReader
from fleet.engines.plain import Glance
from fleet.engines.prometheus import page_fault, reduce_metrics
from fleet.engines.sglang_spill import OWN_PATH, PLACES, SPILL, with_spill_paths

SERVER_INFO: Final = ("GET /server_info", "GET /get_server_info")
MODELS: Final = ("GET /v1/models",)
LOADS: Final = ("GET /v1/loads",)
METRICS: Final = ("GET /metrics",)
MODEL_INFO: Final = ("GET /model_info", "GET /get_model_info")

#: Settings that a pair must share (design, ``pair_match``).
LAYOUT: Final[Mapping[str, Shape]] = {
    "quantization": Shape.TEXT,
    "kv_cache_dtype": Shape.TEXT,
    "dtype": Shape.TEXT,
    "page_size": Shape.NUMBER,
    "speculative_algorithm": Shape.TEXT,
    "speculative_num_steps": Shape.NUMBER,
    "speculative_eagle_topk": Shape.NUMBER,
    "speculative_num_draft_tokens": Shape.NUMBER,
    "speculative_draft_model_path": Shape.TEXT,
}
PARALLEL: Final[Mapping[str, Shape]] = {
    "tp_size": Shape.NUMBER,
    "pp_size": Shape.NUMBER,
    "dp_size": Shape.NUMBER,
    "ep_size": Shape.NUMBER,
    "dcp_size": Shape.NUMBER,
}
#: Settings whose change voids a proof.
FLAGS: Final[Mapping[str, Shape]] = {
    "allow_auto_truncate": Shape.SWITCH,
    "attention_backend": Shape.TEXT,
    "chunked_prefill_size": Shape.NUMBER,
    "context_length": Shape.NUMBER,
    "disable_hybrid_swa_memory": Shape.SWITCH,
    "disable_overlap_schedule": Shape.SWITCH,
    "disable_radix_cache": Shape.SWITCH,
    "disaggregation_bootstrap_port": Shape.NUMBER,
    "disaggregation_decode_allocation_policy": Shape.TEXT,
    "disaggregation_decode_enable_offload_kvcache": Shape.SWITCH,
    "disaggregation_decode_enable_radix_cache": Shape.SWITCH,
    "disaggregation_enable_kv_checksum": Shape.SWITCH,
    "disaggregation_mode": Shape.TEXT,
    "disaggregation_transfer_backend": Shape.TEXT,
    "enable_dp_attention": Shape.SWITCH,
    "enable_hierarchical_cache": Shape.SWITCH,
    "enable_pd_role_switch": Shape.SWITCH,
    "enable_unified_memory": Shape.SWITCH,
    "frontend": Shape.TEXT,
    "hicache_storage_backend": Shape.TEXT,
    "kv_canary": Shape.TEXT,
    "kv_canary_real_data": Shape.TEXT,
    "kv_canary_sweep_interval": Shape.NUMBER,
    "max_prefill_tokens": Shape.NUMBER,
    "max_queued_requests": Shape.NUMBER,
    "max_running_requests": Shape.NUMBER,
    "max_total_tokens": Shape.NUMBER,
    "mem_fraction_static": Shape.NUMBER,
    "num_reserved_decode_tokens": Shape.NUMBER,
    SPILL: Shape.TEXT,
    "optimistic_prefill_attempts": Shape.NUMBER,
    "schedule_policy": Shape.TEXT,
    "swa_full_tokens_ratio": Shape.NUMBER,
}
#: Environment of the engine, shown only with SGLANG_EXPOSE_OWN_ENV_VARS=1 (0.5.19 on).
ENVIRONMENT: Final[Mapping[str, Shape]] = {
    "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE": Shape.TEXT,
    "SGLANG_DISAGGREGATION_WAITING_TIMEOUT": Shape.TEXT,
    "SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES": Shape.TEXT,
}
#: Name under which a reading tells that the engine shows its environment at all.
ENVIRONMENT_SHOWN: Final = "environment"
_IDENTITY: Final[Mapping[str, Shape]] = {
    "max_context_length": Shape.NUMBER,
    "max_req_input_len": Shape.NUMBER,
    "max_total_num_tokens": Shape.NUMBER,
    "model_path": Shape.TEXT,
    "random_seed": Shape.NUMBER,
    "revision": Shape.TEXT,
    "served_model_name": Shape.TEXT,
    "status": Shape.TEXT,
    "version": Shape.TEXT,
    "weight_version": Shape.TEXT,
}
#: Names under which releases show the sliding window, where they show it at all.
WINDOWS: Final = ("sliding_window", "sliding_window_size")
#: Pool kinds of a hybrid model as some releases and forks name them beside ``memory_usage``.
FULL_POOL: Final = "full_max_total_num_tokens"
SWA_POOL: Final = "swa_max_total_num_tokens"
_SERVER_INFO: Final = {
    **LAYOUT,
    **PARALLEL,
    **FLAGS,
    **_IDENTITY,
    **dict.fromkeys((*WINDOWS, SWA_POOL), Shape.NUMBER),
}
_STATE: Final[Mapping[str, Shape]] = {
    "disaggregation_mode": Shape.TEXT,
    **dict.fromkeys((*WINDOWS, FULL_POOL, SWA_POOL), Shape.NUMBER),
}
_MEMORY: Final[Mapping[str, Shape]] = {
    "token_capacity": Shape.NUMBER,
    "token_capacity_swa": Shape.NUMBER,
}
_STARTUP: Final[Mapping[str, Shape]] = dict.fromkeys(
    ("load_weight", "kv_cache_allocation", "scheduler_e2e", "tokenizer_e2e"), Shape.NUMBER
)
_CARD: Final[Mapping[str, Shape]] = {
    "id": Shape.TEXT,
    "parent": Shape.TEXT,
    "max_model_len": Shape.NUMBER,
}
_MODEL_INFO: Final[Mapping[str, Shape]] = {
    "disaggregation_mode": Shape.TEXT,
    "model_path": Shape.TEXT,
    "served_model_name": Shape.TEXT,
    "weight_version": Shape.TEXT,
}
_LOAD: Final[Mapping[str, Shape]] = {
    "dp_rank": Shape.NUMBER,
    "num_running_reqs": Shape.NUMBER,
    "num_waiting_reqs": Shape.NUMBER,
    "num_used_tokens": Shape.NUMBER,
    "max_total_num_tokens": Shape.NUMBER,
}
#: Places where a request waits, by the part of /v1/loads that shows them (0.5.19 to 0.5.23).
TRANSFER_QUEUES: Final = (
    "prefill_bootstrap_queue_reqs",
    "prefill_inflight_queue_reqs",
    "decode_prealloc_queue_reqs",
    "decode_transfer_queue_reqs",
    "decode_retracted_queue_reqs",
)
LOCAL_QUEUES: Final = ("waiting", "grammar", "paused", "retracted", "prealloc_ready")
_TRANSFER: Final = {"mode": Shape.TEXT, **dict.fromkeys(TRANSFER_QUEUES, Shape.NUMBER)}

#: Counters that only grow while a process lives.
COUNTERS: Final = (
    "sglang:num_requests_total",
    "sglang:prompt_tokens_total",
    "sglang:generation_tokens_total",
    "sglang:http_requests_total",
    "sglang:num_aborted_requests_total",
    "sglang:process_cpu_seconds_total",
    "sglang:scheduler_process_cpu_seconds_total",
)
QUEUE_METRICS: Final[Mapping[str, str]] = {
    "prefill_bootstrap_queue_reqs": "sglang:num_prefill_bootstrap_queue_reqs",
    "prefill_inflight_queue_reqs": "sglang:num_prefill_inflight_queue_reqs",
    "decode_prealloc_queue_reqs": "sglang:num_decode_prealloc_queue_reqs",
    "decode_transfer_queue_reqs": "sglang:num_decode_transfer_queue_reqs",
}
RUNNING_METRIC: Final = "sglang:num_running_reqs"
WAITING_METRIC: Final = "sglang:num_queue_reqs"
USED_METRIC: Final = "sglang:num_used_tokens"
POOL_METRIC: Final = "sglang:max_total_num_tokens"
SWA_POOL_METRIC: Final = "sglang:max_total_num_tokens_swa"
CONTEXT_METRIC: Final = "sglang:context_len"
PAGE_METRIC: Final = "sglang:page_size"
#: Together the states that the state-space layers of a hybrid model can hold.
MAMBA_METRICS: Final = (
    "sglang:mamba_available_tokens",
    "sglang:mamba_evictable_tokens",
    "sglang:mamba_used_tokens",
)
_METRICS: Final = frozenset(
    (
        *COUNTERS,
        *QUEUE_METRICS.values(),
        RUNNING_METRIC,
        WAITING_METRIC,
        USED_METRIC,
        POOL_METRIC,
        SWA_POOL_METRIC,
        CONTEXT_METRIC,
        PAGE_METRIC,
        *MAMBA_METRICS,
    )
)
_MOST_ENTRIES: Final = 4096
_GLANCE: Final = Glance(OWN_PATH)
#: All that ``_reduce_server_info`` looks at.
_LOOKED_AT: Final = PartialReader(
    (*_SERVER_INFO, *PLACES, "startup_time"),
    {"internal_states": (*_STATE, "memory_usage", "startup_time", "env_vars")},
)


def allow(route: str, answer: Answer) -> Answer:
    """Answer the same answer, reduced; applying it again changes nothing more."""
    if answer.status != OK or answer.error:
        return drop_body(answer)
    if route in METRICS:
        return _allow_metrics(answer)
    reduce = _REDUCTIONS.get(route)
    if reduce is None:
        return drop_body(answer)
    return reduce_json(answer, reduce, _glimpse if route in SERVER_INFO else None)


def _allow_metrics(answer: Answer) -> Answer:
    fault = page_fault(answer.text or "")
    if fault:
        return drop_body(answer, fault)
    text = reduce_metrics(answer.text or "", names=_METRICS)
    return replace(answer, json=None, text=text, is_redacted=True)


def _glimpse(text: str) -> dict[str, object] | None:
    """Answer what the reduction looks at, where nothing else in the text could matter."""
    return _LOOKED_AT.read(text) if _GLANCE.shows_no_secret(text) else None


def _reduce_server_info(document: Mapping[str, object]) -> dict[str, object]:
    kept = keep(with_spill_paths(document), _SERVER_INFO)
    if "startup_time" in document:
        kept["startup_time"] = keep(document["startup_time"], _STARTUP)
    if "internal_states" in document:
        states = as_list(document["internal_states"])[:_MOST_ENTRIES]
        kept["internal_states"] = [_reduce_state(state) for state in states]
    return kept


def _reduce_state(state: object) -> dict[str, object]:
    fields = as_object(state)
    kept = keep(fields, _STATE)
    kept["memory_usage"] = keep(fields.get("memory_usage"), _MEMORY)
    if "startup_time" in fields:
        kept["startup_time"] = keep(fields["startup_time"], _STARTUP)
    if isinstance(fields.get("env_vars"), dict):
        kept["env_vars"] = _reduce_environment(as_object(fields["env_vars"]))
    return kept


def _reduce_environment(shown: Mapping[str, object]) -> dict[str, object]:
    """Answer the named variables as texts; one that is none must not look as if it were not set."""
    plain = {
        name: str(shown[name]) if isinstance(shown[name], str | int | float) else "unreadable"
        for name in ENVIRONMENT
        if name in shown
    }
    return keep(plain, ENVIRONMENT)


def _reduce_models(document: Mapping[str, object]) -> dict[str, object]:
    cards = as_list(document.get("data"))[:_MOST_ENTRIES]
    return {"data": [keep(card, _CARD) for card in cards]}


def _reduce_model_info(document: Mapping[str, object]) -> dict[str, object]:
    return keep(document, _MODEL_INFO)


def _reduce_loads(document: Mapping[str, object]) -> dict[str, object]:
    loads = as_list(document.get("loads"))[:_MOST_ENTRIES]
    return {**keep(document, {"version": Shape.TEXT}), "loads": list(map(_reduce_load, loads))}


def _reduce_load(load: object) -> dict[str, object]:
    fields = as_object(load)
    return {
        **keep(fields, _LOAD),
        "memory": keep(fields.get("memory"), {"token_capacity": Shape.NUMBER}),
        "disaggregation": keep(fields.get("disaggregation"), _TRANSFER),
        "queues": keep(fields.get("queues"), dict.fromkeys(LOCAL_QUEUES, Shape.NUMBER)),
    }


def _of_object(reduce: Callable[[Mapping[str, object]], dict[str, object]]) -> Reduction:
    """Answer a reduction that takes objects only."""
    return lambda document: reduce(document) if isinstance(document, dict) else None


_REDUCTIONS: Final[Mapping[str, Reduction]] = {
    **dict.fromkeys(SERVER_INFO, _of_object(_reduce_server_info)),
    **dict.fromkeys(MODELS, _of_object(_reduce_models)),
    **dict.fromkeys(LOADS, _of_object(_reduce_loads)),
    **dict.fromkeys(MODEL_INFO, _of_object(_reduce_model_info)),
}
