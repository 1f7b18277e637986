"""What the vLLM adapter makes of recorded, odd, hostile and missing answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.captures import Capture, dump_capture, parse_capture
from fleet.contract import Answer, NodeCapture
from fleet.engines.vllm import VLLM
from fleet.live import NodeAddress, capture_node
from fleet.reading import Attestation, Rank, Reading, Role
from tests.fleet.wire import BAD_ANSWERS, SECRET, client_of, serving

DATA = Path(__file__).resolve().parent.parent / "data" / "vllm"
ADAPTER = VLLM()
NODE = NodeAddress(name="v0", url="http://10.0.0.2:8000", role=Role.UNIFIED, engine="vllm")
SERVER_INFO = "GET /server_info?config_format=json"
ROUTES = ("GET /metrics", "GET /v1/models", "GET /version", SERVER_INFO)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def text_in(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def document_in(name: str) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(text_in(name))


def row(engine: str | None = "0", **labels: object) -> str:
    """Answer a capacity series; "None" is how the engine writes what is not set."""
    named = labels if engine is None else {"engine": engine, **labels}
    inner = ",".join(f'{name}="{value}"' for name, value in named.items())
    return f"vllm:cache_config_info{{{inner}}} 1.0\n"


def cards(length: object = 2048) -> dict[str, Any]:
    return {"data": [{"id": "m", "owned_by": "vllm", "parent": None, "max_model_len": length}]}


def read(  # noqa: PLR0913 - every source that a reading may have
    metrics: object = None,
    *,
    models: object = None,
    info: object = None,
    logs: tuple[str, ...] = (),
    attested: Mapping[str, Attestation] | None = None,
    role: Role = Role.UNIFIED,
) -> Reading:
    bodies = {ROUTES[0]: metrics, ROUTES[1]: models, SERVER_INFO: info}
    responses = {route: _answer(body) for route, body in bodies.items() if body is not None}
    return ADAPTER.read(
        NodeCapture(
            name="v0",
            engine="vllm",
            role=role,
            responses=responses,
            logs=logs,
            attested=attested or {},
        )
    )


def _answer(body: object) -> Answer:
    if isinstance(body, Answer):
        return body
    return Answer(status=200, text=body) if isinstance(body, str) else Answer(status=200, json=body)


# Recorded engines: our figure is the longest context that vLLM itself names.


@pytest.mark.parametrize(("name", "longest"), [("blocks17", 2048), ("autolen_override", 384)])
def test_one_block_less_than_the_labels_say_is_what_the_engine_itself_names(
    name: str, longest: int
) -> None:
    models = document_in(f"{name}-models.json")
    assert models["data"][0]["max_model_len"] == longest
    reading = read(text_in(f"{name}.prom"), models=models)
    assert (reading.pool, reading.context, reading.incomplete) == (
        longest,
        longest,
        ("version: the engine does not show it",),
    )
    assert reading.ranks == (Rank(index=0, token_capacity=longest),)


async def test_a_recorded_server_is_read_whole_and_idle() -> None:
    client = serving(
        {
            "GET /metrics": httpx.Response(200, text=text_in("metrics.prom")),
            "GET /v1/models": httpx.Response(200, json=document_in("models.json")),
            "GET /version": httpx.Response(200, json=document_in("version.json")),
        }
    )
    capture = await capture_node(client, NODE)
    reading = ADAPTER.read(capture)
    assert (reading.problem, reading.incomplete, reading.notes) == ("", (), ())
    # 8,192 blocks of 128, one of which is never usable.
    assert (reading.pool, reading.context, reading.first_refused) == (1_048_448, 2048, 2048)
    assert (reading.version, reading.model) == ("0.32.0", "tiny")
    assert reading.started == "1795969980.040"
    assert reading.restart_is_visible
    assert reading.load is not None
    assert reading.load.is_idle
    assert (reading.load.used_tokens, reading.load.free_tokens) == (0, 1_048_448)
    assert reading.flags["gpu_memory_utilization"] == "0.92"
    assert reading.flags["python_version"] == "3.11.7"
    saved = parse_capture(dump_capture(Capture(nodes=(capture,)))).nodes[0]
    assert ADAPTER.read(saved) == reading


def test_development_mode_adds_what_a_pair_must_share_and_is_remarked() -> None:
    reading = read(
        text_in("metrics.prom"),
        models=document_in("models.json"),
        info=document_in("server_info.json"),
    )
    assert reading.reported_role is Role.UNIFIED
    assert (reading.layout["quantization"], reading.layout["dtype"]) == ("null", "torch.bfloat16")
    assert (reading.parallel["tp_size"], reading.parallel["dcp_size"]) == ("1", "1")
    assert any("development mode" in note for note in reading.notes)


def test_a_server_that_moves_kv_is_not_taken_to_be_unified() -> None:
    by_metrics = read(text_in("pd-metrics.prom"), models=cards())
    by_config = read(
        text_in("pd-metrics.prom"), models=cards(), info=document_in("pd-server_info.json")
    )
    for reading in (by_metrics, by_config):
        assert (reading.transfer_backend, reading.reported_role) == ("NixlConnector", None)
        assert any(one.startswith("role:") for one in reading.incomplete)
        # 40 blocks of 128 less one; the recording is of a producer whose leases ran out.
        assert reading.pool == 39 * 128
        assert reading.counters["vllm:nixl_num_kv_expired_reqs_total"] == 2
    assert by_config.flags["kv_lease_duration"] == "12"
    assert by_config.flags["kv_load_failure_policy"] == "fail"


@pytest.mark.parametrize(
    ("kv_role", "connector", "role"),
    [
        ("kv_producer", "NixlConnector", Role.PREFILL),
        ("kv_consumer", "NixlConnector", Role.DECODE),
        ("kv_both", "NixlConnector", None),
        ("kv_both", "SomethingNew", None),
        ("kv_both", "OffloadingConnector", Role.UNIFIED),
        ("kv_producer", "LMCacheConnectorV1", Role.PREFILL),
        (7, "NixlConnector", None),
    ],
)
def test_the_connector_tells_the_role(kv_role: object, connector: str, role: Role | None) -> None:
    config = {"kv_transfer_config": {"kv_connector": connector, "kv_role": kv_role}}
    assert read(row(), models=cards(), info={"vllm_config": config}).reported_role is role


# Pools.


@pytest.mark.parametrize(
    ("labels", "pool"),
    [
        # One group: the labels' product less a block, with the newer label and without it.
        ({"block_size": 16, "num_gpu_blocks": 100}, 1584),
        ({"block_size": 16, "num_gpu_blocks": 100, "kv_cache_size_tokens": 1600}, 1584),
        ({"block_size": 16, "num_gpu_blocks": "100.0", "kv_cache_size_tokens": "None"}, 1584),
        # Several groups: the engine's own figure, above the product or below it.
        ({"block_size": 4, "num_gpu_blocks": 643, "kv_cache_size_tokens": 1_553_140}, 1_553_140),
        ({"block_size": 16, "num_gpu_blocks": 100, "kv_cache_size_tokens": 900}, 900),
        ({"kv_cache_size_tokens": 120_000}, 120_000),
        (
            {
                "block_size": 16,
                "num_gpu_blocks": 100,
                "kv_cache_size_tokens": 9000,
                "mamba_block_size": 16,
            },
            9000,
        ),
        # A setting is never the pool.
        ({"block_size": 16, "num_gpu_blocks": "None", "num_gpu_blocks_override": 100}, None),
        ({"block_size": 16, "num_gpu_blocks": "None", "kv_cache_memory_bytes": 1 << 30}, None),
        ({"block_size": "None", "num_gpu_blocks": 100}, None),
        ({"block_size": 16, "num_gpu_blocks": "many"}, None),
        ({"block_size": 16, "num_gpu_blocks": 0}, None),
        ({"block_size": 16, "num_gpu_blocks": 1}, None),
        ({"block_size": 16, "num_gpu_blocks": 1, "kv_cache_size_tokens": 16}, None),
        ({"block_size": 16, "num_gpu_blocks": 100, "is_attention_free": True}, None),
        # A product that lies, and nothing to replace it.
        ({"block_size": 16, "num_gpu_blocks": 100, "mamba_block_size": 16}, None),
        ({"block_size": 16, "num_gpu_blocks": 100, "mamba_cache_mode": "align"}, None),
        ({"block_size": 16, "num_gpu_blocks": 100, "sliding_window": 1024}, None),
        ({"block_size": 16, "num_gpu_blocks": 100, "effective_attention_block_size": 528}, None),
    ],
)
def test_the_pool_rule_of_the_design(labels: dict[str, Any], pool: int | None) -> None:
    reading = read(row(**labels), models=cards())
    assert reading.pool == pool
    assert bool(pool) is not any(one.startswith("ranks:") for one in reading.incomplete)


def test_two_figures_that_disagree_are_both_shown_and_the_smaller_counts() -> None:
    labels: dict[str, Any] = {"kv_cache_size_tokens": 300_000, "kv_cache_max_concurrency": "2.0"}
    reading = read(row(**labels), models=cards(100_000))
    assert reading.pool == 200_000
    assert reading.beside == {"kv_cache_size_tokens": 300_000, "implied_pool": 200_000}
    assert any("300,000" in note and "200,000" in note for note in reading.notes)


def test_a_concurrency_of_two_decimals_is_no_disagreement() -> None:
    labels: dict[str, Any] = {"kv_cache_size_tokens": 1_553_140, "kv_cache_max_concurrency": "1.48"}
    assert read(row(**labels), models=cards(1_048_576)).pool == 1_553_140


def test_the_smallest_engine_counts_and_a_silent_one_leaves_the_reading_incomplete() -> None:
    both = row("0", kv_cache_size_tokens=9000) + row("1", kv_cache_size_tokens=8000)
    assert read(both, models=cards()).pool == 8000
    series = 'vllm:num_requests_running{engine="2",model_name="m"} 0.0\n'
    silent = read(both + series, models=cards())
    assert silent.pool is None
    assert [rank.index for rank in silent.ranks] == [0, 1, 2]
    assert any("engine 2" in one for one in silent.incomplete)


@pytest.mark.parametrize("engine", ["99999", "4096"])
def test_an_engine_number_that_cannot_be_is_a_doubt(engine: str) -> None:
    reading = read(row() + row(engine, kv_cache_size_tokens=9000), models=cards())
    assert any(one.startswith("ranks:") for one in reading.incomplete)


def test_of_two_series_of_one_engine_the_smaller_counts_and_an_unknown_one_blocks() -> None:
    small = row(kv_cache_size_tokens=8000)
    assert read(small + row(kv_cache_size_tokens=9000), models=cards()).pool == 8000
    assert read(small + row(num_gpu_blocks="None"), models=cards()).pool is None


@pytest.mark.parametrize(
    "given",
    [
        {"attested": {"dcp": Attestation(key="dcp", value="8")}},
        {"attested": {"note": Attestation(key="note", value="started with -dcp 8")}},
        {"logs": ("non-default args: {'decode_context_parallel_size': 8}",)},
        {"info": {"vllm_config": {"parallel_config": {"decode_context_parallel_size": 8}}}},
        {"info": {"vllm_config": {"parallel_config": {"prefill_context_parallel_size": 8}}}},
    ],
)
def test_a_multiplier_that_is_only_named_is_never_applied(given: dict[str, Any]) -> None:
    reading = read(row(block_size=64, num_gpu_blocks=2000), models=cards(), **given)
    assert reading.pool is None
    assert reading.beside == {"local_pool": 128_000, "claimed_pool": 1_024_000}


def test_a_context_parallel_size_of_one_multiplies_nothing() -> None:
    info = {"vllm_config": {"parallel_config": {"decode_context_parallel_size": 1}}}
    assert read(row(block_size=64, num_gpu_blocks=2000), models=cards(), info=info).pool == 127_936


def test_the_configuration_of_a_single_engine_may_tell_what_its_labels_do_not() -> None:
    cache = {"block_size": 16, "num_gpu_blocks": 100}
    info = {"vllm_config": {"cache_config": cache, "parallel_config": {"data_parallel_size": 1}}}
    unset = row(block_size=16, num_gpu_blocks="None")
    assert read(unset, models=cards(), info=info).pool == 1584
    info["vllm_config"]["parallel_config"]["data_parallel_size"] = 2
    assert read(unset, models=cards(), info=info).pool is None


# Log lines: a source of last resort.

SIZE = "INFO 04-23 [kv_cache_utils.py:1] GPU KV cache size: 290,864 tokens"
CONCURRENCY = "Maximum concurrency for 32,768 tokens per request: 33.04x"


def test_a_log_that_contradicts_itself_gives_the_smaller_figure_and_says_so() -> None:
    reading = read(logs=(SIZE + "\n" + CONCURRENCY,))
    assert (reading.pool, reading.context) == (290_864, 32_768)
    assert reading.beside["implied_pool"] == 1_082_654
    assert any("nothing was asked" in note for note in reading.notes)
    assert any("290,864" in note and "1,082,654" in note for note in reading.notes)


def test_the_running_engine_counts_before_the_log() -> None:
    reading = read(row(block_size=16, num_gpu_blocks=100), models=cards(), logs=(SIZE,))
    assert reading.pool == 1584
    assert any("290,864" in note for note in reading.notes)


@pytest.mark.parametrize(
    "metrics", [Answer(status=0, error="too large"), Answer(status=500), Answer(status=404)]
)
def test_a_log_does_not_stand_in_for_a_page_that_did_not_come(metrics: Answer) -> None:
    reading = read(metrics, models=cards(), logs=(SIZE, CONCURRENCY))
    assert reading.pool is None
    assert any(one.startswith("ranks: GET /metrics") for one in reading.incomplete)


def test_a_log_does_not_stand_in_for_several_engines_that_show_no_capacity() -> None:
    series = "".join(f'vllm:num_requests_running{{engine="{one}"}} 0.0\n' for one in (0, 1))
    assert read(series, models=cards(), logs=(SIZE,)).pool is None
    one = series.partition("\n")[0] + "\n"
    assert read(one, models=cards(), logs=(SIZE,)).pool == 290_864


def test_an_engine_that_does_not_run_is_not_judged_by_its_log() -> None:
    silent = Answer(status=0, error="connection refused")
    for logs in ((text_in("override_small.log"),), (SIZE,)):
        reading = read(silent, models=silent, logs=logs)
        assert not reading.is_read
        assert "connection refused" in reading.problem
        assert reading.pool is None
    assert (
        "2,048 tokens are wanted and 384 fit"
        in read(silent, logs=(text_in("override_small.log"),)).problem
    )


def test_a_recorded_log_alone_never_promises_more_than_the_engine_fitted() -> None:
    reading = read(logs=(text_in("autolen_override.log"),))
    assert (reading.pool, reading.context) == (384, 384)
    assert any("2,048 to 384" in note for note in reading.notes)


def test_no_line_of_a_log_is_kept() -> None:
    line = f"non-default args: {{'api_key': ['{SECRET}'], 'model': 'm'}} {SIZE}"
    assert SECRET not in repr(read(row(), models=cards(), logs=(line,)))


# What went wrong.


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "never asked"),
        (Answer(status=0, error="timeout"), "timeout"),
        (Answer(status=404), "router"),
        (Answer(status=503), "starting"),
        (Answer(status=200, text="<html>gateway</html>"), "page for people"),
        (Answer(status=200, text="vllm_router_requests_total 3.0\n"), "router"),
    ],
)
def test_a_node_that_cannot_be_read_says_why_and_what_to_do(
    answer: Answer | None, words: str
) -> None:
    reading = read(answer)
    assert not reading.is_read
    assert "v0" in reading.problem
    assert words in reading.problem


def test_a_page_that_is_cut_off_or_too_large_is_not_taken_for_a_whole_one() -> None:
    whole = row(block_size=16, num_gpu_blocks=100)
    assert read(whole, models=cards()).pool == 1584
    assert read(whole + 'vllm:num_requests_running{engine="1', models=cards()).pool is None
    assert read(whole + "#" + "x" * 8 * 1024 * 1024 + "\n", models=cards()).pool is None


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_a_bad_answer_is_recorded_and_never_raised(name: str) -> None:
    capture = await capture_node(client_of(BAD_ANSWERS[name]), NODE)
    assert set(capture.responses) >= {"GET /metrics", "GET /v1/models"}
    reading = ADAPTER.read(capture)
    assert "v0" in reading.problem
    assert reading.pool is None


async def test_a_page_above_the_cap_of_the_client_is_inconclusive_and_says_so() -> None:
    page = row(block_size=16, num_gpu_blocks=100) + "#" + "x" * 9 * 1024 * 1024 + "\n"
    client = serving(
        {
            "GET /metrics": httpx.Response(200, text=page),
            "GET /v1/models": httpx.Response(200, json=cards()),
        }
    )
    reading = ADAPTER.read(await capture_node(client, NODE))
    assert reading.is_read
    assert any("bytes" in one for one in reading.incomplete)


# Context, identity, secrets.


@pytest.mark.parametrize("odd", ["2048", True, -1, 0.5, 10**15])
def test_an_odd_context_is_incomplete(odd: object) -> None:
    reading = read(row(kv_cache_size_tokens=9000), models=cards(odd))
    assert reading.context is None
    assert any(one.startswith("context:") for one in reading.incomplete)


def test_live_load_is_not_in_the_fingerprint_and_a_setting_is() -> None:
    calm = row(kv_cache_size_tokens=9000, gpu_memory_utilization=0.9)
    busy = calm + 'vllm:num_requests_running{engine="0"} 7.0\n'
    changed = row(kv_cache_size_tokens=9000, gpu_memory_utilization=0.8)
    assert read(calm, models=cards()).fingerprint == read(busy, models=cards()).fingerprint
    assert read(calm, models=cards()).fingerprint != read(changed, models=cards()).fingerprint


def planted() -> dict[str, Any]:
    info = document_in("server_info.json")
    info["vllm_config"]["model_config"]["hf_token"] = SECRET
    info["vllm_config"]["kv_transfer_config"] = {
        "kv_connector": "NixlConnector",
        "kv_connector_extra_config": {"kv_lease_duration": 30, "password": SECRET},
    }
    return dict(info)


def test_secrets_are_named_and_never_kept() -> None:
    answer = ADAPTER.allow(SERVER_INFO, Answer(status=200, json=planted()))
    reading = read(row(), models=cards(), info=planted())
    assert reading.exposed_secrets == ("hf_token", "password")
    assert SECRET not in repr(asdict(answer)) + repr(reading)


def test_the_allow_list_changes_nothing_when_applied_again() -> None:
    for route, body in ((SERVER_INFO, planted()), ("GET /v1/models", cards("x"))):
        once = ADAPTER.allow(route, Answer(status=200, json=body))
        assert ADAPTER.allow(route, once) == once
    text = text_in("metrics.prom") + "vllm:nixl_bytes_transferred_count 0.0\n"
    once = ADAPTER.allow("GET /metrics", Answer(status=200, text=text))
    assert ADAPTER.allow("GET /metrics", once) == once
    assert "vllm:nixl_shown" in (once.text or "")
    assert "model_name" not in (once.text or "")


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from((*ROUTES, "GET /x")), st.tuples(st.integers(0, 599), JSON)),
    st.lists(st.text(max_size=60), max_size=3),
)
def test_no_body_whatever_makes_the_adapter_raise_show_a_pool_or_print_a_secret(
    answers: dict[str, tuple[int, object]], logs: list[str]
) -> None:
    responses = {
        route: Answer(status=status, json=body, text=body if isinstance(body, str) else None)
        for route, (status, body) in answers.items()
    }
    reading = ADAPTER.read(
        NodeCapture(
            name="v0", engine="vllm", role=Role.DECODE, responses=responses, logs=tuple(logs)
        )
    )
    assert reading.pool is None
    assert SECRET not in repr(reading)
    assert len(reading.fingerprint) == 64


LABELS = st.dictionaries(
    st.sampled_from(
        ("block_size", "num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency")
    ),
    st.sampled_from(("None", "", "0", "16", "100000", "1e9", "-4", "NaN", "999999999999999"))
    | st.text(alphabet=st.characters(exclude_characters='"\\\n\r'), max_size=8),
)


@settings(max_examples=200, deadline=None)
@given(LABELS, JSON, st.text(max_size=40))
def test_no_label_whatever_makes_a_pool_that_is_no_figure(
    labels: dict[str, str], length: object, tail: str
) -> None:
    reading = read(row(**labels) + f"vllm:x{tail}", models=cards(length))
    json.dumps(reading.identity(), allow_nan=False).encode()
    assert all(rank.pool is None or 0 < rank.pool <= 10**12 for rank in reading.ranks)
