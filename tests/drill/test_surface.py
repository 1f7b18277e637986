"""What a node says of itself, by version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from drill.settings import NodeSettings

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]

ROUTES = {
    "/server_info": "0.5.19",
    "/model_info": "0.5.19",
    "/v1/loads": "0.5.19",
    "/ready": "0.5.20",
}
VERSIONS = ("0.5.5", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23")


def _is_since(version: str, since: str) -> bool:
    return VERSIONS.index(version) >= VERSIONS.index(since)


@pytest.mark.parametrize("version", VERSIONS)
async def test_routes_and_fields_come_with_their_versions(
    launch: Launch, make_pair: MakePair, version: str
) -> None:
    rig = await launch(make_pair(1024, 4096, engine_version=version))
    for path, since in ROUTES.items():
        expected = 200 if _is_since(version, since) else 404
        assert (await rig.get("prefill-1", path)).status == expected, path
    old_load = await rig.get("prefill-1", "/get_load")
    assert old_load.status == (404 if _is_since(version, "0.5.21") else 200)
    info = (await rig.get("prefill-1", "/get_server_info")).body
    assert info["version"] == version
    assert (info["max_total_num_tokens"], info["max_req_input_len"]) == (1024, 1018)
    assert info["internal_states"][0]["memory_usage"]["token_capacity"] == 1024
    for name, since in (
        ("startup_time", "0.5.19"),
        ("kv_canary", "0.5.19"),
        ("launch_command", "0.5.20"),
        ("disaggregation_enable_kv_checksum", "0.5.21"),
        ("frontend", "0.5.21"),
        ("disaggregation_decode_allocation_policy", "0.5.22"),
        ("hicache_object_layout", "0.5.23"),
    ):
        assert (name in info) is _is_since(version, since), name


async def test_roles_are_told_as_the_engine_tells_them(launch: Launch, make_pair: MakePair) -> None:
    rig = await launch(make_pair(1024, 4096))
    prefill = (await rig.get("prefill-1", "/server_info")).body
    decode = (await rig.get("decode-1", "/server_info")).body
    assert (prefill["disaggregation_mode"], decode["disaggregation_mode"]) == ("prefill", "decode")
    assert prefill["disaggregation_bootstrap_port"] == 8991
    assert decode["num_reserved_decode_tokens"] == 16
    assert decode["api_key"] is None
    models = (await rig.get("decode-1", "/v1/models")).body
    assert models["data"][0]["max_model_len"] == 4096
    assert (await rig.get("decode-1", "/v1/models/drill-model")).status == 200
    assert (await rig.get("decode-1", "/v1/models/other")).status == 404


async def test_metrics_are_prometheus_text_with_the_engines_names(
    launch: Launch, make_pair: MakePair
) -> None:
    rig = await launch(make_pair(1024, 4096))
    await rig.say("hello there", 5)
    text = (await rig.get("decode-1", "/metrics")).body
    families = {family.name: family for family in text_string_to_metric_families(text)}
    pool = families["sglang:max_total_num_tokens"].samples[0]
    assert pool.value == 4096
    assert pool.labels == {
        "engine_type": "decode",
        "model_name": "drill-model",
        "moe_ep_rank": "0",
        "pp_rank": "0",
        "tp_rank": "0",
    }
    assert families["sglang:context_len"].samples[0].value == 4096
    assert families["sglang:num_requests"].samples[0].value == 1
    assert families["sglang:prompt_tokens"].samples[0].value == len("hello there")
    served = families["sglang:http_responses"].samples
    assert any(one.labels["endpoint"] == "/generate" and one.value == 1 for one in served)


async def test_the_tokenizer_counts_bytes(launch: Launch, make_pair: MakePair) -> None:
    rig = await launch(make_pair(1024, 4096))
    body = {"prompt": "é!", "add_special_tokens": False}
    for path in ("/tokenize", "/v1/tokenize"):
        answer = await rig.ask("POST", "decode-1", path, body)
        assert answer.body == {"tokens": [0xC3, 0xA9, 33], "count": 3, "max_model_len": 4096}
    special = await rig.ask("POST", "decode-1", "/tokenize", {"prompt": "!"})
    assert special.body["count"] == 2
    back = await rig.ask("POST", "decode-1", "/detokenize", {"tokens": [0xC3, 0xA9, 33]})
    assert back.body == {"text": "é!"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "Either text, input_ids"),
        ({"text": ""}, "cannot be empty"),
        ({"input_ids": [512]}, "vocabulary"),
        ({"input_ids": [-1]}, "vocabulary"),
        ({"text": ["a", "b"]}, "one prompt a request"),
        ({"text": "a", "input_ids": [1]}, "Only one of"),
        ({"text": "a", "sampling_params": {"max_new_tokens": -1}}, "max_new_tokens"),
        ({"text": "a", "sampling_params": 3}, "sampling_params"),
        ({"text": "a", "bootstrap_room": "x"}, "bootstrap_room"),
    ],
)
async def test_bad_bodies_are_refused_with_a_reason(
    launch: Launch, make_pair: MakePair, body: dict[str, object], said: str
) -> None:
    rig = await launch(make_pair(1024, 4096))
    answer = await rig.ask("POST", "decode-1", "/generate", body)
    assert answer.status == 400
    assert said in answer.body["error"]["message"]


async def test_unknown_routes_and_bodies_without_json(launch: Launch, make_pair: MakePair) -> None:
    rig = await launch(make_pair(1024, 4096))
    assert (await rig.get("decode-1", "/nothing")).status == 404
    assert (await rig.get("decode-1", "/generate")).status == 405
    async with rig.session.post(rig.url("decode-1") + "/generate", data=b"{") as reply:
        assert reply.status == 400


async def test_streams_end_with_done(launch: Launch, make_pair: MakePair) -> None:
    rig = await launch(make_pair(1024, 4096))
    events = (await rig.generate("hello there", 5, stream=True)).body.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    body = {"model": "m", "prompt": "hello there", "max_tokens": 5, "stream": True}
    text = (await rig.ask("POST", "router", "/v1/completions", body, "key-of-b")).body
    assert text.endswith("data: [DONE]\n\n")


async def test_flush_frees_but_does_not_wipe(launch: Launch, make_pair: MakePair) -> None:
    rig = await launch(make_pair(1024, 4096))
    await rig.say("Repeat this code exactly: AMARK-9", 7)
    pool = rig.cluster.nodes["decode-1"].engine.pool
    held = pool.tokens_at(range(1, 60))
    assert (await rig.ask("POST", "decode-1", "/flush_cache")).status == 200
    assert pool.tokens_at(range(1, 60)) == held
