"""What SGLang shows where /server_info does not tell: metrics alone, ranks, windows, logs."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.contract import Answer, NodeCapture
from fleet.engines.sglang import SGLang
from fleet.reading import Reading, Role
from tests.fleet.sglang_answers import info, load, loads, models, state
from tests.fleet.wire import SECRET

ADAPTER = SGLang()
SERVER_INFO = ("GET /server_info", "GET /get_server_info")
#: As scheduler.py prints it (0.5.23), once a data-parallel rank.
LOG = (
    "[2026-09-11 10:00:00 DP0 TP0] max_total_num_tokens=681280, chunked_prefill_size=8192, "
    "max_prefill_tokens=16384, max_running_requests=256, context_len=1048576, "
    "available_gpu_mem=5.20 GB"
)


def read(*, logs: tuple[str, ...] = (), role: Role = Role.UNIFIED, **bodies: object) -> Reading:
    routes = {
        "info": SERVER_INFO[0],
        "old": SERVER_INFO[1],
        "models": "GET /v1/models",
        "loads": "GET /v1/loads",
        "metrics": "GET /metrics",
    }
    responses = {routes[name]: _answer(body) for name, body in bodies.items() if body is not None}
    capture = NodeCapture(name="n0", engine="sglang", role=role, responses=responses, logs=logs)
    return ADAPTER.read(capture)


def _answer(body: object) -> Answer:
    if isinstance(body, Answer):
        return body
    return Answer(status=200, text=body) if isinstance(body, str) else Answer(status=200, json=body)


def pools(*ranks: int, mode: str = "unified", context: int = 32768) -> str:
    lines = [
        f'sglang:max_total_num_tokens{{dp_rank="{rank}",engine_type="{mode}"}} {pool}.0\n'
        for rank, pool in enumerate(ranks)
    ]
    return "".join(lines) + f"sglang:context_len {context}.0\n"


# Metrics alone.


@pytest.mark.parametrize("gone", [None, Answer(status=404)])
def test_metrics_stand_in_where_nobody_asked_or_the_route_is_not_there(gone: Answer | None) -> None:
    reading = read(info=gone, old=gone, metrics=pools(60000, 20000, 60000))
    assert (reading.problem, reading.pool, reading.context) == ("", 20000, 32768)
    assert reading.reported_role is Role.UNIFIED
    assert any("GET /metrics alone" in note for note in reading.notes)


@pytest.mark.parametrize(
    "held_back",
    [
        Answer(status=0, error="timeout"),
        Answer(status=401),
        Answer(status=500),
        Answer(status=200, text="<html>"),
    ],
)
def test_metrics_do_not_stand_in_for_an_engine_that_does_not_answer(held_back: Answer) -> None:
    reading = read(info=held_back, metrics=pools(60000))
    assert not reading.is_read
    assert reading.pool is None


def test_metrics_without_a_pool_are_no_engine() -> None:
    assert not read(metrics="sglang:num_running_reqs 0.0\n").is_read


def test_the_labels_of_metrics_tell_a_role_that_was_not_declared() -> None:
    assert read(metrics=pools(60000, mode="decode")).reported_role is Role.DECODE
    assert read(metrics=pools(60000, mode="dynamic")).reported_role is None


def test_a_page_that_is_cut_off_shows_nothing() -> None:
    cut = pools(60000) + 'sglang:max_total_num_tokens{dp_rank="1"'
    assert not read(metrics=cut).is_read


# Ranks.


def test_ranks_that_no_answer_lists_are_like_rank_0_in_pool_and_unknown_in_limit() -> None:
    shown = info(dp_size=8)
    del shown["internal_states"]
    reading = read(info=shown, models=models(16384))
    assert reading.pool == 10624
    assert any(one.startswith("first_refused:") for one in reading.incomplete)
    assert any("8 ranks" in note for note in reading.notes)


@pytest.mark.parametrize(
    "others",
    [
        {"info": info(dp_size=3, internal_states=[state(10624), state(10624)])},
        {"info": info(dp_size=3), "loads": loads(load(0), load(1))},
        {"info": info(dp_size=3), "metrics": pools(10624, 10624)},
    ],
)
def test_a_rank_is_missing_where_an_answer_lists_the_others(others: dict[str, Any]) -> None:
    reading = read(models=models(16384), **others)
    assert len(reading.ranks) == 3
    assert any("rank 2" in one for one in reading.incomplete)


# Hybrid models.


def test_pool_kinds_by_their_other_names_are_shown() -> None:
    kinds = {"full_max_total_num_tokens": 186_368, "swa_max_total_num_tokens": 18_432}
    reading = read(
        info=info(max_total_num_tokens=186_368, max_req_input_len=18_426, internal_states=[kinds]),
        models=models(1_048_576),
    )
    (rank,) = reading.ranks
    assert (rank.token_capacity, rank.swa_capacity, reading.pool) == (186_368, 18_432, 18_432)


@pytest.mark.parametrize("name", ["sliding_window", "sliding_window_size"])
def test_the_sliding_window_is_read_where_it_is_shown(name: str) -> None:
    assert read(info=info(**{name: 128})).flags["sliding_window"] == "128"
    inside = info(internal_states=[state(10624, **{name: 128})])
    assert read(info=inside).flags["sliding_window"] == "128"
    assert read(info=info()).flags["sliding_window"] is None


def test_the_page_size_of_metrics_stands_in() -> None:
    reading = read(metrics=pools(60000) + "sglang:page_size 64.0\n")
    assert reading.page_size == 64


# The start-up log.


def test_a_log_alone_tells_pool_and_context_and_is_named_as_the_source() -> None:
    other = LOG.replace("DP0", "DP1").replace("681280", "600000")
    reading = read(logs=(LOG + "\n" + other,))
    assert (reading.pool, reading.context, reading.first_refused) == (600_000, 1_048_576, None)
    assert any("start-up log" in note for note in reading.notes)


def test_the_warning_of_a_small_pool_is_a_source_too() -> None:
    line = "KV pool holds 4096 tokens, fewer than --context-length 8192. One full-length request"
    assert (read(logs=(line,)).pool, read(logs=(line,)).context) == (4096, 8192)


def test_an_engine_that_does_not_answer_is_not_judged_by_its_log() -> None:
    reading = read(info=Answer(status=0, error="connection refused"), logs=(LOG,))
    assert not reading.is_read
    assert "681,280" in reading.problem
    assert reading.pool is None


def test_the_log_tells_a_context_that_no_answer_tells() -> None:
    shown = info(max_total_num_tokens=681_280, max_req_input_len=681_274, internal_states=[])
    silent = read(info=shown, models=Answer(status=401))
    assert silent.context is None
    told = read(info=shown, models=Answer(status=401), logs=(LOG,))
    assert (told.context, told.pool) == (1_048_576, 681_280)
    assert any(note.startswith("context:") for note in told.notes)


def test_the_running_engine_counts_before_the_log() -> None:
    reading = read(info=info(), models=models(16384), logs=(LOG,))
    assert (reading.pool, reading.context) == (10624, 16384)
    assert any("10,624" in note and "681,280" in note for note in reading.notes)


def test_keys_in_a_log_are_named_and_never_kept() -> None:
    line = f"server_args=ServerArgs(api_key='{SECRET}', admin_api_key=None) {LOG}"
    reading = read(info=info(), logs=(line,))
    assert reading.exposed_secrets == ("api_key in the start-up log",)
    assert SECRET not in repr(reading)


# Figures that disagree, and settings.


def test_the_engines_own_limit_counts_and_the_reported_pool_is_shown_beside_it() -> None:
    shown = info(max_total_num_tokens=186_368, max_req_input_len=18_426, internal_states=[])
    reading = read(info=shown, models=models(1_048_576))
    assert reading.pool == 18_432
    assert reading.beside == {"reported_pool": 186_368}
    assert any("186,368" in note and "18,426" in note for note in reading.notes)
    assert not read(info=info(), models=models(16384)).beside


def test_a_setting_is_never_read_as_the_pool() -> None:
    shown = info(max_total_tokens=99_999, max_total_num_tokens=None, internal_states=[{}])
    del shown["max_req_input_len"]
    reading = read(info=shown, models=models(16384))
    assert reading.flags["max_total_tokens"] == "99999"
    assert reading.pool is None
    assert any(one.startswith("ranks:") for one in reading.incomplete)


def test_the_states_of_a_mamba_hybrid_are_shown_and_not_judged_by() -> None:
    names = ("available", "evictable", "used")
    page = "".join(f"sglang:mamba_{name}_tokens 100.0\n" for name in names)
    reading = read(info=info(), models=models(16384), metrics=page)
    assert (reading.beside, reading.pool) == ({"mamba_pool": 300}, 10624)
    half = read(info=info(), models=models(16384), metrics=page.partition("\n")[2])
    assert not half.beside


# The Rust front end.


def test_the_rust_front_end_shows_pool_and_context_and_no_limit() -> None:
    shown = {
        "model_path": "/models/a",
        "served_model_name": "a",
        "tokenizer_path": "/models/a",
        "max_context_length": 16384,
        "max_total_num_tokens": 10624,
        "version": "0.5.23",
        "internal_states": [state(10624)],
    }
    reading = read(info=shown)
    assert (reading.problem, reading.version) == ("", "0.5.23")
    assert (reading.context, reading.pool, reading.first_refused) == (16384, 10624, None)
    assert any(one.startswith("role:") for one in reading.incomplete)
