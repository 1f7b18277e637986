"""What the llama.cpp adapter makes of recorded, odd, hostile and missing answers."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.captures import Capture, dump_capture, parse_capture
from fleet.contract import Answer, NodeCapture
from fleet.engines.llamacpp import LlamaCpp
from fleet.live import NodeAddress, capture_node
from fleet.reading import Attestation, Reading, Role
from tests.fleet.wire import BAD_ANSWERS, SECRET, client_of, serving

DATA = Path(__file__).resolve().parent.parent / "data" / "llamacpp"
ADAPTER = LlamaCpp()
NODE = NodeAddress(name="l0", url="http://10.0.0.3:8080", role=Role.UNIFIED, engine="llamacpp")
ROUTES = ("GET /props", "GET /slots", "GET /v1/models", "GET /metrics")
TAKEN_AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
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


def document_in(name: str) -> Any:  # noqa: ANN401 - any JSON
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def props(slots: object = 2, context: object = 1024) -> dict[str, Any]:
    return {
        "build_info": "b1",
        "total_slots": slots,
        "model_path": "m.gguf",
        "default_generation_settings": {"n_ctx": context},
    }


def slots_of(*contexts: object) -> list[dict[str, Any]]:
    return [{"id": place, "n_ctx": context} for place, context in enumerate(contexts)]


def read(  # noqa: PLR0913 - keyword-only
    settings_: object = None,
    *,
    slots: object = None,
    models: object = None,
    vouched: Attestation | None = None,
    logs: tuple[str, ...] = (),
    metrics: Answer | None = None,
) -> Reading:
    bodies = dict(zip(ROUTES, (settings_, slots, models, metrics), strict=True))
    responses = {
        route: body if isinstance(body, Answer) else Answer(status=200, json=body)
        for route, body in bodies.items()
        if body is not None
    }
    return ADAPTER.read(
        NodeCapture(
            name="l0",
            engine="llamacpp",
            role=Role.UNIFIED,
            responses=responses,
            attested={} if vouched is None else {vouched.key: vouched},
            logs=logs,
            taken_at=TAKEN_AT,
        )
    )


def unified(value: str, **over: Any) -> Attestation:  # noqa: ANN401 - any field
    return Attestation(key="kv_unified", value=value, **over)


# Recorded servers. The two kinds of slots answer alike, which is why nothing is proved.


@pytest.mark.parametrize(("name", "count"), [("", 2), ("unified_", 4)])
def test_recorded_slots_do_not_tell_their_pool(name: str, count: int) -> None:
    reading = read(
        document_in(f"{name}props.json"),
        slots=document_in(f"{name}slots.json"),
        models=document_in(f"{name}models.json"),
    )
    assert (reading.problem, reading.reported_role) == ("", Role.UNIFIED)
    assert (reading.context, reading.first_refused, reading.pool) == (1024, 1024, None)
    assert reading.flags["total_slots"] == str(count)
    assert any("kv_unified" in one for one in reading.incomplete)
    assert reading.beside["pool_if_unified"] == 1024
    assert reading.beside["pool_if_apart"] == 1024 * count
    assert reading.version == "b0-unknown"


async def test_a_live_server_reads_like_its_saved_capture() -> None:
    metrics = (DATA / "metrics.prom").read_text(encoding="utf-8")
    client = serving(
        {
            "GET /props": httpx.Response(200, json=document_in("props.json")),
            "GET /slots": httpx.Response(200, json=document_in("slots_after.json")),
            "GET /v1/models": httpx.Response(200, json=document_in("models.json")),
            "GET /metrics": httpx.Response(200, text=metrics),
        }
    )
    capture = await capture_node(client, NODE)
    saved = parse_capture(dump_capture(Capture(nodes=(capture,)))).nodes[0]
    reading = ADAPTER.read(capture)
    assert ADAPTER.read(saved) == reading
    assert reading.load is not None
    assert reading.load.is_idle
    assert reading.restart_is_visible


# Slots.


def test_a_single_slot_is_its_own_pool() -> None:
    assert read(props(1), slots=slots_of(1024)).pool == 1024


@pytest.mark.parametrize(
    ("count", "word", "running", "free"),
    [
        (1, None, 0, 1024),
        (1, None, 1, 0),
        (4, "false", 1, 3072),
        (4, "false", 9, 0),
        (4, "true", 0, None),
        (4, None, 0, None),
    ],
)
def test_idle_slots_are_free_where_none_can_take_from_another(
    count: int, word: str | None, running: int, free: int | None
) -> None:
    text = f"llamacpp:requests_processing {running}\nllamacpp:requests_deferred 0\n"
    reading = read(
        props(count),
        slots=slots_of(*[1024] * count),
        vouched=None if word is None else unified(word),
        metrics=Answer(status=200, text=text),
    )
    assert reading.load is not None
    assert reading.load.free_tokens == free


@pytest.mark.parametrize(("value", "pool"), [("true", 1024), ("false", 4096), (" False ", 4096)])
def test_a_persons_word_tells_the_pool_and_the_reading_says_so(value: str, pool: int) -> None:
    reading = read(props(4), slots=slots_of(*[1024] * 4), vouched=unified(value, by="ada"))
    assert (reading.pool, reading.incomplete) == (pool, ())
    assert any("attestation" in note and "ada" in note for note in reading.notes)


@pytest.mark.parametrize(
    "vouched",
    [
        unified("perhaps"),
        unified(""),
        unified("false", until=TAKEN_AT),
        Attestation(key="unified", value="false"),
    ],
)
def test_a_word_that_is_unclear_or_has_run_out_tells_nothing(vouched: Attestation) -> None:
    assert read(props(4), slots=slots_of(*[1024] * 4), vouched=vouched).pool is None


@pytest.mark.parametrize(("word", "pool"), [("true", 1024), ("false", 4096)])
def test_a_start_up_log_is_a_source_of_last_resort(word: str, pool: int) -> None:
    log = f"0.01 I llama_context: kv_unified    = {word}\nllama_context: freq_base = 1.0"
    reading = read(props(4), slots=slots_of(*[1024] * 4), logs=(log,))
    assert reading.pool == pool
    assert any("start-up log" in note for note in reading.notes)


def test_a_word_against_the_log_proves_nothing() -> None:
    log = "llama_context: kv_unified    = true"
    against = read(props(4), slots=slots_of(*[1024] * 4), logs=(log,), vouched=unified("false"))
    assert against.pool is None


@pytest.mark.parametrize(
    ("settings_", "slots"),
    [
        (props(3), slots_of(1024, 1024)),
        (props(2, None), None),
        (props(None), None),
        (props("2"), None),
        (props(2, "1024"), None),
        (props(0), []),
    ],
)
def test_slots_that_are_not_told_leave_the_pool_unknown(settings_: object, slots: object) -> None:
    reading = read(settings_, slots=slots, vouched=unified("false"))
    assert reading.pool is None
    assert any(one.startswith("ranks:") for one in reading.incomplete)


def test_the_smallest_slot_counts_and_different_contexts_are_a_doubt() -> None:
    reading = read(props(2), slots=slots_of(1024, 512), vouched=unified("true"))
    assert (reading.context, reading.pool) == (1024, 512)
    assert any(one.startswith("context:") for one in reading.incomplete)


def test_an_engine_without_split_mode_contradicts_a_split_role() -> None:
    capture = NodeCapture(
        name="l0",
        engine="llamacpp",
        role=Role.PREFILL,
        responses={"GET /props": Answer(status=200, json=props())},
    )
    assert not ADAPTER.read(capture).role_is_declared


# What went wrong.


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "never asked"),
        (Answer(status=0, error="timeout"), "timeout"),
        (Answer(status=401), "key"),
        (Answer(status=404), "router"),
        (Answer(status=503), "loading"),
        (Answer(status=200, text="<html>gateway</html>"), "no JSON"),
        (Answer(status=200, json=[1]), "no JSON object"),
        (Answer(status=200, json={"default_generation_settings": {"n_ctx": 9}}), "router"),
    ],
)
def test_a_node_that_cannot_be_read_says_why_and_what_to_do(
    answer: Answer | None, words: str
) -> None:
    reading = read(answer)
    assert not reading.is_read
    assert "l0" in reading.problem
    assert words in reading.problem


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_a_bad_answer_is_recorded_and_never_raised(name: str) -> None:
    reading = ADAPTER.read(await capture_node(client_of(BAD_ANSWERS[name]), NODE))
    assert "l0" in reading.problem
    assert reading.pool is None


def test_models_that_cannot_be_asked_leave_the_context_in_doubt() -> None:
    reading = read(props(1), slots=slots_of(1024), models=Answer(status=500))
    assert any(one.startswith("context:") for one in reading.incomplete)


# Secrets.


def test_prompts_of_other_people_in_slots_are_never_kept() -> None:
    slot = {"id": 0, "n_ctx": 1024, "prompt": SECRET, "params": {"grammar": SECRET}}
    answer = ADAPTER.allow("GET /slots", Answer(status=200, json=[slot]))
    assert SECRET not in repr(asdict(answer)) + repr(read(props(1), slots=[slot]))


def test_the_allow_list_changes_nothing_when_applied_again() -> None:
    for route, body in (
        ("GET /props", document_in("props.json")),
        ("GET /slots", document_in("slots_after.json")),
        ("GET /v1/models", document_in("models.json")),
    ):
        once = ADAPTER.allow(route, Answer(status=200, json=body))
        assert ADAPTER.allow(route, once) == once


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
    capture = NodeCapture(
        name="l0", engine="llamacpp", role=Role.UNIFIED, responses=responses, logs=tuple(logs)
    )
    reading = ADAPTER.read(capture)
    assert reading.pool is None
    assert SECRET not in repr(reading)
    assert len(reading.fingerprint) == 64


@settings(max_examples=150, deadline=None)
@given(JSON, JSON, JSON, JSON)
def test_no_value_in_any_field_makes_the_adapter_raise(
    count: object, context: object, slots: object, cards: object
) -> None:
    reading = read(props(count, context), slots=slots, models={"data": cards})
    json.dumps(reading.identity(), allow_nan=False).encode()
    assert reading.pool is None or reading.pool > 0
