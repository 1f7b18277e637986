"""The arguments of a server with their defaults, as `/server_info` lists them, by version."""

from __future__ import annotations

from typing import Any

from packaging.version import Version

_SINCE_5 = Version("0.5.5")
_SINCE_19 = Version("0.5.19")
_SINCE_20 = Version("0.5.20")
_SINCE_21 = Version("0.5.21")
_SINCE_22 = Version("0.5.22")
_SINCE_23 = Version("0.5.23")

_NULL = """
    revision quantization quantization_param_path max_running_requests max_queued_requests
    nccl_port dist_timeout dist_init_addr ssl_keyfile ssl_certfile
    ssl_keyfile_password api_key admin_api_key chat_template completion_template reasoning_parser
    tool_call_parser tool_server preferred_sampling_params log_level_http crash_dump_folder
    kv_events_config decode_attention_backend prefill_attention_backend mm_attention_backend
    speculative_algorithm speculative_draft_model_path speculative_draft_model_revision
    speculative_draft_load_format speculative_num_steps speculative_eagle_topk
    speculative_num_draft_tokens speculative_token_map ep_dispatch_algorithm deepep_config
    moe_dense_tp_size elastic_ep_backend mooncake_ib_device max_mamba_cache_size mamba_ssm_dtype
    hicache_storage_backend hicache_storage_backend_extra_config enable_lora max_lora_rank
    lora_target_modules lora_paths max_loaded_loras disaggregation_ib_device pdmux_config_path
    download_dir decrypted_config_file decrypted_draft_config_file numa_node rl_on_policy_target
"""
_NULL_19 = """
    speculative_draft_model_quantization speculative_draft_attention_backend
    speculative_draft_kv_cache_dtype speculative_draft_window_size speculative_moe_a2a_backend
    max_ep_size hisparse_config radix_cache_backend dcp_replicate_q_proj cp_strategy
    prefill_max_requests model_checksum extra_metric_labels weight_cache_socket
    disaggregation_decode_extra_slots disaggregation_decode_retraction_backup
"""
_FALSE = """
    skip_tokenizer_init trust_remote_code is_embedding enable_priority_scheduling
    schedule_low_priority_values_first enable_dp_attention enable_dp_lm_head enable_p2p_check
    sleep_on_idle skip_server_warmup enable_cache_report log_requests show_time_cost enable_trace
    enable_request_time_stats_logging disable_cuda_graph disable_overlap_schedule enable_nccl_nvls
    enable_symm_mem disable_custom_all_reduce enable_mscclpp enable_torch_compile enable_eplb
    enable_flashinfer_allreduce_fusion enable_hierarchical_cache enable_lmcache enable_memory_saver
    enable_two_batch_overlap enable_single_batch_overlap enable_mixed_chunk allow_auto_truncate
    enable_custom_logit_processor disable_shared_experts_fusion disable_chunked_prefix_cache
    enable_return_hidden_states enable_deterministic_inference enable_metrics_for_all_schedulers
    disaggregation_decode_enable_offload_kvcache enable_pdmux
"""
_FALSE_19 = """
    disable_hybrid_swa_memory enable_unified_memory enable_hisparse enable_flexkv encoder_only
    language_only disaggregation_decode_enable_radix_cache smg_grpc_mode grpc_mode
    enable_streaming_session enable_session_radix_cache speculative_adaptive enable_prefill_cp
    uses_mamba_radix_cache enable_int8_mamba_checkpoint enable_http2
"""
_VALUES: dict[str, Any] = {
    "tokenizer_mode": "auto",
    "tokenizer_worker_num": 1,
    "load_format": "auto",
    "model_loader_extra_config": "{}",
    "model_impl": "auto",
    "json_model_override_args": "{}",
    "dtype": "auto",
    "kv_cache_dtype": "auto",
    "mem_fraction_static": 0.85,
    "chunked_prefill_size": 8192,
    "max_prefill_tokens": 16384,
    "schedule_policy": "fcfs",
    "schedule_conservativeness": 1.0,
    "swa_full_tokens_ratio": 0.8,
    "radix_eviction_policy": "lru",
    "num_continuous_decode_steps": 1,
    "scheduler_recv_interval": 1,
    "nnodes": 1,
    "node_rank": 0,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "ep_size": 1,
    "device": "cpu",
    "base_gpu_id": 0,
    "gpu_id_step": 1,
    "watchdog_timeout": 300,
    "weight_version": "default",
    "file_storage_path": "sglang_storage",
    "sampling_defaults": "model",
    "stream_interval": 1,
    "log_level": "info",
    "log_requests_level": 2,
    "enable_metrics": True,
    "decode_log_interval": 40,
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "grammar_backend": "xgrammar",
    "speculative_accept_threshold_single": 1.0,
    "speculative_accept_threshold_acc": 1.0,
    "speculative_attention_mode": "prefill",
    "moe_a2a_backend": "none",
    "moe_runner_backend": "auto",
    "mamba_full_memory_ratio": 0.9,
    "hicache_ratio": 2.0,
    "hicache_size": 0,
    "hicache_write_policy": "write_through",
    "cpu_offload_gb": 0,
    "disaggregation_transfer_backend": "mooncake",
    "disaggregation_decode_polling_interval": 1,
}
_VALUES_19: dict[str, Any] = {
    "tokenizer_backend": "huggingface",
    "detokenizer_worker_num": 1,
    "retraction_policy": "length",
    "dcp_size": 1,
    "attn_cp_size": 1,
    "moe_dp_size": 1,
    "log_requests_format": "text",
    "optimistic_prefill_attempts": 0,
    "kv_canary": "none",
    "kv_canary_real_data": "none",
    "kv_canary_sweep_interval": 0,
    "encoder_transfer_backend": "zmq_to_scheduler",
    "load_snapshot_publish_interval": 15,
}
_VALUES_20: dict[str, Any] = {
    "radix_eviction_policy_config": None,
    "enable_response_store": False,
    "return_input_ids": False,
    "return_output_ids": False,
    "sampling_mask_max_tokens": 4096,
}
_VALUES_21: dict[str, Any] = {
    "disaggregation_enable_kv_checksum": False,
    "enable_pd_role_switch": False,
    "disaggregation_decode_host_receive_threshold": 1.0,
    "grpc_response_timeout_secs": 300,
    "prefill_kv_cache_dequant_dtype": "auto",
}
_VALUES_22: dict[str, Any] = {
    "attn_dp_size": 1,
    "disaggregation_decode_allocation_policy": "early",
    "speculative_use_block_verification": False,
    "enable_watermark": False,
    "watermark_key": "<redacted>",
    "watermark_key_b": "<redacted>",
}
_VALUES_23: dict[str, Any] = {
    "prefill_decode_interval_min_bs": None,
    "enable_paged_experts": False,
    "unified_cache_external_linker_config": None,
}


def _table(nulls: str, falses: str, values: dict[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(nulls.split()) | dict.fromkeys(falses.split(), False) | values


_BY_VERSION = (
    (_SINCE_5, _table(_NULL, _FALSE, _VALUES)),
    (_SINCE_19, _table(_NULL_19, _FALSE_19, _VALUES_19)),
    (_SINCE_20, _VALUES_20),
    (_SINCE_21, _VALUES_21),
    (_SINCE_22, _VALUES_22),
    (_SINCE_23, _VALUES_23),
)


def server_args(version: Version) -> dict[str, Any]:
    """Answer the arguments that a version has, with their defaults.

    Source: recorded `/server_info` of 0.5.19, 0.5.22 and 0.5.23, and the declared defaults of the
    other wheels; of about 500 fields those that say what a node admits, holds and transfers.
    """
    known: dict[str, Any] = {}
    for since, table in _BY_VERSION:
        if version >= since:
            known |= table
    return known
