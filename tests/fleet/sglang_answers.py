"""Answers of an SGLang node, as documents that a test bends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.fleet.wire import SECRET


def info(**over: object) -> dict[str, Any]:
    """Answer a /server_info of a prefill node: pool 10,624 under a context of 16,384."""
    return {
        "version": "0.5.19",
        "status": "ready",
        "disaggregation_mode": "prefill",
        "max_req_input_len": 10618,
        "max_total_num_tokens": 10624,
        "context_length": None,
        "page_size": 64,
        "dp_size": 1,
        "allow_auto_truncate": False,
        "model_path": "/models/a",
        "served_model_name": "a",
        "internal_states": [state(10624)],
        **over,
    }


def state(capacity: object, **over: object) -> dict[str, Any]:
    return {"memory_usage": {"token_capacity": capacity, "token_capacity_swa": None}, **over}


def models(*lengths: object) -> dict[str, Any]:
    return {"data": [{"id": "a", "parent": None, "max_model_len": length} for length in lengths]}


def load(rank: int, *, pool: object = 10624, **over: object) -> dict[str, Any]:
    queues = ("waiting", "grammar", "paused", "retracted", "prealloc_ready")
    transfer = ("prefill_bootstrap", "prefill_inflight", "decode_prealloc", "decode_transfer")
    return {
        "dp_rank": rank,
        "num_running_reqs": 0,
        "num_waiting_reqs": 0,
        "num_used_tokens": 0,
        "max_total_num_tokens": pool,
        "memory": {"token_capacity": pool},
        "disaggregation": {
            "mode": "prefill",
            **{f"{name}_queue_reqs": 0 for name in (*transfer, "decode_retracted")},
        },
        "queues": dict.fromkeys(queues, 0),
        **over,
    }


def loads(*entries: Mapping[str, object], version: str = "0.5.19") -> dict[str, Any]:
    return {"version": version, "loads": list(entries)}


def planted() -> dict[str, Any]:
    return info(
        api_key=SECRET,
        admin_api_key=SECRET,
        ssl_keyfile_password=SECRET,
        launch_command=f"--model-path a --api-key {SECRET} --port 1",
        hicache_storage_backend_extra_config=json.dumps({"secret_key": SECRET}),
        watermark_key="<redacted>",
        model_path=f"s3://id:{SECRET}@bucket/a",
        internal_states=[
            state(10624, api_key=SECRET, env_vars={"SGLANG_TOKEN": SECRET, "HF_TOKEN": SECRET})
        ],
    )
