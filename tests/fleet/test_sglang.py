"""What the SGLang adapter makes of recorded, odd, hostile and missing answers."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.captures import parse_capture
from fleet.contract import Answer, NodeCapture
from fleet.engines.sglang import SGLang
from fleet.reading import Rank, Reading, Role
from tests.fleet.sglang_answers import info, load, loads, models, planted, state
from tests.fleet.wire import READINGS, SECRET

ADAPTER = SGLang()
ROUTES = [route for group in ADAPTER.routes for route in group]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**20), max_value=10**20)
    | st.floats()
    | st.text(max_size=12)
    | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def read(server_info: object = None, *, role: Role = Role.PREFILL, **others: object) -> Reading:
    """Read answers of 200: documents as JSON, texts as text, ``Answer`` as it is."""
    routes = {
        "models": "GET /v1/models",
        "loads": "GET /v1/loads",
        "metrics": "GET /metrics",
        "model_info": "GET /model_info",
    }
    given_ = {"GET /server_info": server_info} | {routes[name]: one for name, one in others.items()}
    responses = {route: _answer(one) for route, one in given_.items() if one is not None}
    return ADAPTER.read(NodeCapture(name="p0", engine="sglang", role=role, responses=responses))


def _answer(value: object) -> Answer:
    if isinstance(value, Answer):
        return value
    if isinstance(value, str):
        return Answer(status=200, text=value)
    return Answer(status=200, json=value)


# Recorded engines (design: F 1018 and pools of 1,024 and 4,096 under a context of 4,096).


def recorded(name: str) -> list[Reading]:
    capture = parse_capture((READINGS / f"{name}.json").read_text())
    return [ADAPTER.read(node) for node in capture.nodes]


@pytest.mark.parametrize("version", ["0.5.19", "0.5.22", "0.5.23"])
def test_a_recorded_pair_gives_the_figures_of_the_design(version: str) -> None:
    prefill, decode = recorded(f"{version}-pd-1024-4096")
    assert (prefill.version, decode.version) == (version, version)
    assert (prefill.reported_role, decode.reported_role) == (Role.PREFILL, Role.DECODE)
    assert (prefill.first_refused, decode.first_refused) == (1018, 4090)
    assert (prefill.pool, decode.pool) == (1024, 4096)
    assert (prefill.context, decode.context) == (4096, 4096)
    for reading in (prefill, decode):
        assert (reading.problem, reading.incomplete, reading.exposed_secrets) == ("", (), ())
        assert reading.restart_is_visible
        assert reading.load is not None
        assert reading.load.free_tokens == reading.pool
        assert (reading.page_size, reading.reserve) == (1, 512 if reading is prefill else 16)
        assert reading.transfer_backend == "mooncake"


def test_a_recorded_unified_node_is_unified() -> None:
    (reading,) = recorded("0.5.19-unified-1024")
    assert (reading.reported_role, reading.role_is_declared) == (Role.UNIFIED, True)
    assert (reading.first_refused, reading.pool, reading.context) == (1018, 1024, 4096)
    assert reading.transfer_backend is None


@pytest.mark.parametrize("path", sorted(READINGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_recording_is_read_whole_and_idle_ones_are_idle(path: Any) -> None:  # noqa: ANN401
    for node in parse_capture(path.read_text()).nodes:
        reading = ADAPTER.read(node)
        assert (reading.problem, reading.incomplete) == ("", ())
        assert reading.load is not None
        answer = node.responses["GET /v1/loads"].json
        assert isinstance(answer, dict)
        entry = answer["loads"][0]
        held = [entry["num_running_reqs"], entry["num_waiting_reqs"], *entry["queues"].values()]
        held += [
            count for name, count in entry["disaggregation"].items() if name.endswith("_queue_reqs")
        ]
        assert reading.load.is_idle == (not any(held))


# Pools and limits.


@pytest.mark.parametrize(
    ("server_info", "context", "pool"),
    [
        # F + 6 below the context: that is rank 0's pool, whatever the capacities say.
        (info(), 16384, 10624),
        (info(internal_states=[state(99999)]), 16384, 10624),
        # F + 6 not below the context: the capacity counts.
        (info(max_req_input_len=16378, internal_states=[state(20480)]), 16384, 20480),
        # Another rank is smaller.
        (info(internal_states=[state(10624), state(9000)]), 16384, 9000),
        (info(internal_states=[state(10624), state(90000)]), 16384, 10624),
        # Without F the smallest pool kind counts.
        (
            info(
                max_req_input_len=None,
                max_total_num_tokens=20000,
                internal_states=[
                    {"memory_usage": {"token_capacity": 20000, "token_capacity_swa": 700}}
                ],
            ),
            16384,
            700,
        ),
    ],
)
def test_the_smallest_rank_counts_by_the_engines_own_arithmetic(
    server_info: dict[str, Any], context: int, pool: int
) -> None:
    reading = read(server_info, models=models(context))
    assert (reading.pool, reading.incomplete) == (pool, ())


def test_sliding_window_figures_are_shown_and_not_minimised() -> None:
    memory = {"token_capacity": 900096, "token_capacity_swa": 180032}
    reading = read(
        info(
            max_req_input_len=1048570,
            max_total_num_tokens=900096,
            internal_states=[{"memory_usage": memory}],
        ),
        models=models(1048576),
    )
    assert reading.ranks == (
        Rank(index=0, token_capacity=900096, swa_capacity=180032, reported_pool=900096),
    )
    assert reading.pool == 900096


@pytest.mark.parametrize(
    "odd", ["10618", True, -1, 0, 1.5, 10**15, float("nan"), float("inf"), [], {"a": 1}]
)
@pytest.mark.parametrize("field", ["max_req_input_len", "max_total_num_tokens"])
def test_an_odd_figure_is_none_and_leaves_the_reading_incomplete(field: str, odd: object) -> None:
    reading = read(info(**{field: odd}), models=models(16384))
    assert reading.incomplete
    assert field in " ".join(reading.incomplete)
    if field == "max_req_input_len":
        assert reading.first_refused is None


@pytest.mark.parametrize("odd", ["10624", True, -5, 2.5, 10**15, float("nan"), {}])
def test_an_odd_capacity_leaves_the_reading_incomplete(odd: object) -> None:
    reading = read(info(internal_states=[state(odd)]), models=models(16384))
    assert any("token_capacity" in one for one in reading.incomplete)
    assert reading.ranks[0].token_capacity is None


@pytest.mark.parametrize(
    "others",
    [
        {"server_info": info(dp_size=2)},
        {"loads": loads(load(0), {**load(1), "memory": {}, "max_total_num_tokens": None})},
        {"metrics": 'sglang:gen_throughput{dp_rank="1"} 0.0\n'},
        {"metrics": 'sglang:max_total_num_tokens{dp_rank="1"} NaN\n'},
        {"server_info": info(internal_states=[state(10624), {}])},
        {"server_info": info(internal_states=[state(10624), "x"])},
    ],
)
def test_a_rank_that_is_seen_without_its_pool_is_never_left_out(others: dict[str, Any]) -> None:
    reading = read(others.pop("server_info", info()), models=models(16384), **others)
    assert [rank.index for rank in reading.ranks] == [0, 1]
    assert any("rank 1" in one for one in reading.incomplete)
    assert reading.pool is None


def test_another_source_may_show_the_pool_of_a_rank() -> None:
    metrics = 'sglang:max_total_num_tokens{dp_rank="1",tp_rank="0"} 9000.0\n'
    reading = read(info(dp_size=2), models=models(16384), metrics=metrics)
    assert (reading.pool, reading.incomplete) == (9000, ())


def test_answers_that_contradict_each_other_are_incomplete() -> None:
    elsewhere = read(info(), models=models(16384), loads=loads(load(0, pool=20480)))
    assert any("10624" in one and "20480" in one for one in elsewhere.incomplete)
    mixed = read(info(), models=models(16384), loads=loads(load(0), version="0.5.22"))
    assert mixed.version is None
    assert any("0.5.19 and 0.5.22" in one for one in mixed.incomplete)


# Context.


def test_the_largest_advertised_context_counts() -> None:
    assert read(info(context_length=8192), models=models(16384)).context == 16384
    assert read(info(context_length=16384), models=models(8192, 4096)).context == 16384
    metrics = "sglang:context_len 32768.0\n"
    assert read(info(), models=models(16384), metrics=metrics).context == 32768


def test_a_lora_card_without_a_length_says_nothing() -> None:
    cards = models(16384)
    cards["data"].append({"id": "lora", "parent": "a", "max_model_len": None})
    reading = read(info(), models=cards)
    assert (reading.context, reading.incomplete) == (16384, ())


def test_a_context_that_nobody_shows_stays_unknown() -> None:
    assert read(info(), models=models(None)).context is None
    assert read(info()).context is None


@pytest.mark.parametrize("odd", ["16384", True, -1, 0.5, 10**15])
def test_an_odd_context_is_incomplete(odd: object) -> None:
    reading = read(info(), models=models(odd))
    assert reading.context is None
    assert any(one.startswith("context:") for one in reading.incomplete)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500),
        Answer(status=0, error="timeout"),
        Answer(status=200, text="<html>"),
        Answer(status=401),
        Answer(status=200, json=[]),
        Answer(status=200, json={}),
    ],
)
def test_a_context_that_could_not_be_asked_for_is_incomplete(answer: Answer) -> None:
    reading = read(info(context_length=16384), models=answer)
    assert any(one.startswith("context:") for one in reading.incomplete)


# Role, version, switches.


@pytest.mark.parametrize(
    ("mode", "role"),
    [("null", Role.UNIFIED), ("prefill", Role.PREFILL), ("decode", Role.DECODE)],
)
def test_the_engine_says_its_own_role(mode: str, role: Role) -> None:
    assert read(info(disaggregation_mode=mode)).reported_role is role


@pytest.mark.parametrize("mode", [None, "both", 3, True, [], ""])
def test_a_role_that_is_not_clear_is_incomplete(mode: object) -> None:
    reading = read(info(disaggregation_mode=mode))
    assert reading.reported_role is None
    assert any(one.startswith("role:") for one in reading.incomplete)


def test_a_switched_role_is_the_live_one() -> None:
    live = info(internal_states=[state(10624, disaggregation_mode="decode")])
    assert read(live).reported_role is Role.DECODE
    assert read(live, loads=loads(load(0))).reported_role is None


@pytest.mark.parametrize("field", ["version", "allow_auto_truncate"])
def test_a_setting_that_a_gate_needs_is_missed(field: str) -> None:
    shown = info()
    del shown[field]
    assert any(one.startswith(f"{field}:") for one in read(shown).incomplete)


# Load.


def test_a_queue_figure_that_is_missing_is_not_idle() -> None:
    idle = read(info(), models=models(16384), loads=loads(load(0)))
    assert idle.load is not None
    assert idle.load.is_idle
    assert (idle.load.used_tokens, idle.load.free_tokens) == (0, 10624)
    for part, name in (("queues", "paused"), ("disaggregation", "decode_transfer_queue_reqs")):
        entry = load(0)
        del entry[part][name]
        busy = read(info(), models=models(16384), loads=loads(entry)).load
        assert busy is not None
        assert not busy.is_idle
        assert busy.queues[name] is None


def test_a_rank_that_shows_no_load_is_not_idle() -> None:
    two = info(dp_size=2, internal_states=[state(10624), state(10624)])
    reading = read(two, models=models(16384), loads=loads(load(0)))
    assert reading.load is not None
    assert (reading.load.running, reading.load.free_tokens) == (None, None)


def test_the_fullest_rank_tells_what_is_free() -> None:
    two = info(dp_size=2, internal_states=[state(10624), state(10624)])
    entries = [load(0, num_used_tokens=624), load(1, num_used_tokens=10000, num_running_reqs=3)]
    shown = read(two, models=models(16384), loads=loads(*entries)).load
    assert shown is not None
    assert (shown.used_tokens, shown.free_tokens, shown.running) == (10624, 624, 3)


def test_an_engine_without_loads_shows_its_queues_in_metrics() -> None:
    names = ("prefill_bootstrap", "prefill_inflight", "decode_prealloc", "decode_transfer")
    lines = [f'sglang:num_{name}_queue_reqs{{tp_rank="0"}} 0.0' for name in names]
    lines += ["sglang:num_running_reqs 0.0", "sglang:num_queue_reqs 0.0"]
    lines += ["sglang:num_used_tokens 624.0"]
    shown = read(info(), models=models(16384), metrics="\n".join(lines)).load
    assert shown is not None
    assert shown.is_idle
    assert shown.free_tokens == 10000
    without = read(info(), models=models(16384), metrics="\n".join(lines[1:])).load
    assert without is not None
    assert not without.is_idle


def test_metrics_do_not_stand_in_for_loads_that_did_not_answer() -> None:
    """Gauges are stale; only an engine that has no /v1/loads may be judged by them."""
    names = ("prefill_bootstrap", "prefill_inflight", "decode_prealloc", "decode_transfer")
    lines = [f"sglang:num_{name}_queue_reqs 0.0" for name in names]
    metrics = "\n".join([*lines, "sglang:num_running_reqs 0.0", "sglang:num_queue_reqs 0.0"])
    silent = Answer(status=0, error="timeout")
    assert read(info(), models=models(16384), metrics=metrics, loads=silent).load is None
    absent = Answer(status=404)
    shown = read(info(), models=models(16384), metrics=metrics, loads=absent).load
    assert shown is not None
    assert shown.is_idle


# Identity.


def test_live_load_is_not_in_the_fingerprint() -> None:
    calm = read(info(), models=models(16384), loads=loads(load(0)))
    busy = read(
        info(last_gen_throughput=99.0),
        models=models(16384),
        loads=loads(load(0, num_running_reqs=7, num_used_tokens=900)),
        metrics="sglang:num_requests_total 9.0\nsglang:num_running_reqs 7.0\n",
    )
    assert calm.fingerprint == busy.fingerprint


@pytest.mark.parametrize(
    "changed_",
    [
        {"version": "0.5.22"},
        {"random_seed": 2},
        {"startup_time": {"load_weight": 1.5}},
        {"max_req_input_len": 10000},
        {"kv_cache_dtype": "fp8_e5m2"},
        {"weight_version": "2"},
        {"tp_size": 8},
        {"kv_canary": "log"},
        {"allow_auto_truncate": True},
        {"disaggregation_mode": "decode"},
    ],
)
def test_what_drifts_or_restarts_is_in_the_fingerprint(changed_: dict[str, object]) -> None:
    before = info(random_seed=1, startup_time={"load_weight": 1.25})
    assert read(before).fingerprint != read(before | changed_).fingerprint


def test_null_and_not_shown_are_kept_apart() -> None:
    reading = read(info(quantization=None))
    assert reading.layout["quantization"] == "null"
    assert reading.layout["kv_cache_dtype"] is None


# What went wrong.


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "never asked"),
        (Answer(status=0, error="timeout"), "timeout"),
        (Answer(status=401), "API key"),
        (Answer(status=403), "API key"),
        (Answer(status=404), "router"),
        (Answer(status=500), "500"),
        (Answer(status=503), "starting"),
        (Answer(status=200, text="<html><body>nginx</body></html>"), "no JSON"),
        (Answer(status=200, text='{"version": "0.5'), "no JSON"),
        (Answer(status=200, json=[1]), "no JSON object"),
        (Answer(status=200, json={"router_manager": True, "workers_count": 2}), "router"),
        (Answer(status=200), "no JSON object"),
    ],
)
def test_a_node_that_cannot_be_read_says_why_and_what_to_do(
    answer: Answer | None, words: str
) -> None:
    reading = read(answer)
    assert words in reading.problem
    assert "p0" in reading.problem
    assert not reading.is_read
    assert reading.first_refused is None


def test_an_old_engine_answers_on_its_old_route() -> None:
    responses = {
        "GET /server_info": Answer(status=404),
        "GET /get_server_info": Answer(status=200, json=info(version="0.5.5")),
    }
    capture = NodeCapture(name="p0", engine="sglang", role=Role.PREFILL, responses=responses)
    assert ADAPTER.read(capture).version == "0.5.5"


def test_of_two_routes_the_one_that_is_there_tells_what_is_wrong() -> None:
    responses = {"GET /server_info": Answer(status=404), "GET /get_server_info": Answer(status=500)}
    capture = NodeCapture(name="p0", engine="sglang", role=Role.PREFILL, responses=responses)
    assert "500" in ADAPTER.read(capture).problem


# Secrets.


def test_secrets_are_named_and_never_kept() -> None:
    answer = ADAPTER.allow("GET /server_info", Answer(status=200, json=planted()))
    reading = read(planted())
    assert reading.exposed_secrets == (
        "HF_TOKEN",
        "admin_api_key",
        "api_key",
        "hicache_storage_backend_extra_config",
        "launch_command",
        "ssl_keyfile_password",
    )
    assert answer.exposed_secrets == reading.exposed_secrets
    assert SECRET not in repr(asdict(answer)) + repr(reading)


def test_keys_that_are_not_set_are_no_finding() -> None:
    shown = info(api_key=None, admin_api_key="", launch_command="--model-path a --port 1")
    assert read(shown).exposed_secrets == ()


def test_the_allow_list_changes_nothing_when_applied_again() -> None:
    for route, body in (
        ("GET /server_info", planted()),
        ("GET /v1/loads", loads(load(0, num_running_reqs="many"))),
        ("GET /v1/models", models(16384, "x")),
    ):
        once = ADAPTER.allow(route, Answer(status=200, json=body))
        assert ADAPTER.allow(route, once) == once
    text = 'sglang:num_running_reqs{dp_rank="1",customer="acme"} 3.0\n# HELP x\njunk {\n'
    once = ADAPTER.allow("GET /metrics", Answer(status=200, text=text))
    assert once.text == 'sglang:num_running_reqs{dp_rank="1"} 3.0\n'
    assert ADAPTER.allow("GET /metrics", once) == once


def test_a_body_of_an_error_or_of_an_unknown_route_is_not_kept() -> None:
    for route, status in (("GET /server_info", 500), ("GET /anything", 200)):
        kept = ADAPTER.allow(route, Answer(status=status, json={"a": SECRET}, text=SECRET))
        assert (kept.json, kept.text) == (None, None)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(ROUTES), st.tuples(st.integers(0, 599), JSON)))
def test_no_body_whatever_makes_the_adapter_raise_or_print_a_secret(
    answers: dict[str, tuple[int, object]],
) -> None:
    responses = {
        route: Answer(
            status=status, json=body, text=body if isinstance(body, str) else None, error=""
        )
        for route, (status, body) in answers.items()
    }
    reading = ADAPTER.read(
        NodeCapture(name="p0", engine="sglang", role=Role.DECODE, responses=responses)
    )
    assert SECRET not in repr(reading)
    assert len(reading.fingerprint) == 64


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(info())), JSON), JSON, JSON, st.text(max_size=80))
def test_no_value_in_any_field_makes_the_adapter_raise(
    fields: dict[str, object], some_models: object, some_loads: object, metrics: str
) -> None:
    metrics_answer = Answer(status=200, text=f'sglang:num_running_reqs{{dp_rank="0"}} {metrics}')
    reading = read(
        info(**fields),
        models=Answer(status=200, json={"data": some_models}),
        loads=Answer(status=200, json={"loads": some_loads}),
        metrics=metrics_answer,
    )
    json.dumps(reading.identity(), allow_nan=False).encode()
    assert reading.first_refused is None or reading.first_refused > 0
    assert all(rank.pool is None or rank.pool > 0 for rank in reading.ranks)
