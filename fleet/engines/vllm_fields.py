"""The allow-list of vLLM: which fields of which answer are kept (design, safety rule 3).

Source: vLLM 0.32.0, recorded; its /server_info (development mode only) holds the whole
configuration, tokens included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fleet.contract import Answer
from fleet.engines.answers import OK, Reduction, drop_body, reduce_json
from fleet.engines.documents import Shape, as_list, as_object, keep
from fleet.engines.prometheus import page_fault, reduce_metrics

METRICS: Final = ("GET /metrics",)
MODELS: Final = ("GET /v1/models",)
VERSION: Final = ("GET /version",)
#: Only in development mode, which nobody should turn on for a gate; 404 is the usual answer.
SERVER_INFO: Final = ("GET /server_info?config_format=json",)
#: A capture made by hand may name the route without its question.
SERVER_INFO_BY_HAND: Final = (*SERVER_INFO, "GET /server_info")

CACHE_CONFIG: Final = "vllm:cache_config_info"
PYTHON_INFO: Final = "python_info"
START_TIME: Final = "process_start_time_seconds"
RUNNING: Final = "vllm:num_requests_running"
WAITING: Final = "vllm:num_requests_waiting"
USAGE: Final = "vllm:kv_cache_usage_perc"
#: Families that are there only where a connector moves KV between engines.
TRANSFER_PREFIXES: Final[Mapping[str, str]] = {
    "vllm:nixl_": "NixlConnector",
    "vllm:mooncake_xfer_": "MooncakeConnector",
    "vllm:moriio_": "MoRIIOConnector",
}
_NIXL_EXPIRED: Final = "vllm:nixl_num_kv_expired_reqs_total"
COUNTERS: Final = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:num_preemptions_total",
    "vllm:prefix_cache_queries_total",
    "process_cpu_seconds_total",
    _NIXL_EXPIRED,
    "vllm:nixl_num_notifications_after_expiry_total",
    "vllm:nixl_num_failed_transfers_total",
)
ENGINE_LABEL: Final = "engine"
#: Labels of ``vllm:cache_config_info`` that are kept; every one is text, unset is "None".
POOL_LABELS: Final = (
    "block_size",
    "num_gpu_blocks",
    "kv_cache_size_tokens",
    "kv_cache_max_concurrency",
    "effective_attention_block_size",
    "is_attention_free",
    "mamba_block_size",
    "mamba_cache_mode",
    "mamba_page_size_padded",
    "sliding_window",
)
SETTING_LABELS: Final = (
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "kv_offloading_backend",
    "kv_offloading_size",
    "num_gpu_blocks_override",
    "prefix_caching_hash_algo",
)
LABELS: Final = (ENGINE_LABEL, *POOL_LABELS, *SETTING_LABELS, "version")
_NAMES: Final = frozenset(
    (CACHE_CONFIG, PYTHON_INFO, START_TIME, RUNNING, WAITING, USAGE, *COUNTERS)
)
_CARD: Final[Mapping[str, Shape]] = {
    "id": Shape.TEXT,
    "owned_by": Shape.TEXT,
    "parent": Shape.TEXT,
    "root": Shape.TEXT,
    "max_model_len": Shape.NUMBER,
}
#: By part of ``vllm_config``.
PARTS: Final[Mapping[str, Mapping[str, Shape]]] = {
    "model_config": {
        "dtype": Shape.TEXT,
        "max_model_len": Shape.NUMBER,
        "model": Shape.TEXT,
        "quantization": Shape.TEXT,
        "revision": Shape.TEXT,
        "seed": Shape.NUMBER,
    },
    "cache_config": {
        "block_size": Shape.NUMBER,
        "cache_dtype": Shape.TEXT,
        "gpu_memory_utilization": Shape.NUMBER,
        "kv_cache_size_tokens": Shape.NUMBER,
        "num_gpu_blocks": Shape.NUMBER,
    },
    "parallel_config": {
        "data_parallel_size": Shape.NUMBER,
        "decode_context_parallel_size": Shape.NUMBER,
        "pipeline_parallel_size": Shape.NUMBER,
        "prefill_context_parallel_size": Shape.NUMBER,
        "tensor_parallel_size": Shape.NUMBER,
    },
    "scheduler_config": {
        "enable_chunked_prefill": Shape.SWITCH,
        "max_num_batched_tokens": Shape.NUMBER,
        "max_num_seqs": Shape.NUMBER,
    },
    "kv_transfer_config": {
        "kv_buffer_device": Shape.TEXT,
        "kv_connector": Shape.TEXT,
        "kv_load_failure_policy": Shape.TEXT,
        "kv_role": Shape.TEXT,
    },
}
TRANSFER: Final = "kv_transfer_config"
TRANSFER_EXTRA: Final = "kv_connector_extra_config"
#: Seconds that a producer keeps what it computed (NIXL), by name.
TRANSFER_EXTRAS: Final[Mapping[str, Shape]] = {
    "decoder_kv_blocks_ttl": Shape.NUMBER,
    "engine_ttl": Shape.NUMBER,
    "kv_lease_duration": Shape.NUMBER,
}
_MOST_CARDS: Final = 4096


def allow(route: str, answer: Answer) -> Answer:
    """Answer the same answer, reduced; applying it again changes nothing more."""
    if answer.status != OK or answer.error:
        return drop_body(answer)
    if route in METRICS:
        return _allow_metrics(answer)
    reduce = _REDUCTIONS.get(route)
    return drop_body(answer) if reduce is None else reduce_json(answer, reduce)


def _allow_metrics(answer: Answer) -> Answer:
    text = answer.text or ""
    fault = page_fault(text)
    if fault:
        return drop_body(answer, fault)
    # A family of which a connector's presence is read is kept by one series without its labels.
    connectors = sorted({prefix for prefix in TRANSFER_PREFIXES if f"\n{prefix}" in f"\n{text}"})
    kept = reduce_metrics(text, names=_NAMES, labels=LABELS, rank_label=ENGINE_LABEL)
    marks = "".join(f"{prefix}shown 1.0\n" for prefix in connectors if f"{prefix}shown" not in kept)
    return replace(answer, json=None, text=kept + marks, is_redacted=True)


def _reduce_models(document: object) -> object:
    if not isinstance(document, dict):
        return None
    return {"data": [keep(card, _CARD) for card in as_list(document.get("data"))[:_MOST_CARDS]]}


def _reduce_version(document: object) -> object:
    return keep(document, {"version": Shape.TEXT}) if isinstance(document, dict) else None


def _reduce_server_info(document: object) -> object:
    if not isinstance(document, dict):
        return None
    config = as_object(document.get("vllm_config"))
    kept: dict[str, object] = {
        part: keep(config[part], shapes)
        for part, shapes in PARTS.items()
        if isinstance(config.get(part), dict)
    }
    if TRANSFER in kept:
        extra = as_object(config[TRANSFER]).get(TRANSFER_EXTRA)
        kept[TRANSFER] = {
            **as_object(kept[TRANSFER]),
            TRANSFER_EXTRA: keep(extra, TRANSFER_EXTRAS),
        }
    elif TRANSFER in config:
        kept[TRANSFER] = None
    return {"vllm_config": kept}


_REDUCTIONS: Final[Mapping[str, Reduction]] = {
    **dict.fromkeys(MODELS, _reduce_models),
    **dict.fromkeys(VERSION, _reduce_version),
    **dict.fromkeys(SERVER_INFO_BY_HAND, _reduce_server_info),
}
