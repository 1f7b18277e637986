"""The verdicts over vLLM and llama.cpp: what their readings prove, and what nothing proves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.contract import ENGINES, Answer, NodeCapture
from fleet.reading import FleetReading, Role
from probes.arguments import VerbParser, add_node_options
from probes.judge import judge_fleet
from probes.verbs import judge

load_plugins("fleet.engines")
DATA = Path(__file__).resolve().parent.parent / "data"
Saved = dict[str, Any]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**7) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def vllm(metrics: str, models: str, *, role: str = "unified", name: str = "v0") -> Saved:
    folder = DATA / "vllm"
    return {
        "name": name,
        "engine": "vllm",
        "role": role,
        "responses": {
            "GET /metrics": {"status": 200, "text": (folder / metrics).read_text()},
            "GET /v1/models": {"status": 200, "json": json.loads((folder / models).read_text())},
        },
    }


def llamacpp(which: str, **over: object) -> Saved:
    folder = DATA / "llamacpp"
    routes = {"props": "GET /props", "slots": "GET /slots", "models": "GET /v1/models"}
    return {
        "name": "l0",
        "engine": "llamacpp",
        "role": "unified",
        "responses": {
            route: {"status": 200, "json": json.loads((folder / f"{which}{name}.json").read_text())}
            for name, route in routes.items()
        },
        **over,
    }


@pytest.fixture
def judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 - a function
    """Judge saved nodes through the verb; answer the exit code and the judgement."""

    def run(*nodes: Saved, **over: object) -> tuple[int, Saved]:
        path = tmp_path / "capture.json"
        path.write_text(json.dumps({"nodes": list(nodes), **over}), encoding="utf-8")
        code = judge.main([str(path), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def check_in(judgement: Saved, name: str) -> Saved:
    (check,) = [one for one in judgement["checks"] if one["check"] == name]
    return dict(check)


def test_a_real_vllm_with_room_passes_and_the_pair_gates_do_not_apply(judged: Any) -> None:  # noqa: ANN401
    code, judgement = judged(vllm("metrics.prom", "models.json"))
    assert (code, judgement["verdict"]) == (0, "pass")
    pool = check_in(judgement, "pool_covers_context")
    assert pool["figures"]["pool"] == 8191 * 128
    assert (pool["figures"]["context"], pool["figures"]["last_admitted"]) == (2048, 2047)
    assert {"pair_exposure", "safe_rejection"} <= {one["check"] for one in judgement["skipped"]}


def test_a_real_vllm_that_holds_exactly_its_context_has_no_headroom(judged: Any) -> None:  # noqa: ANN401
    code, judgement = judged(vllm("blocks17.prom", "blocks17-models.json"))
    pool = check_in(judgement, "pool_covers_context")
    assert (code, pool["verdict"], pool["figures"]["ratio"]) == (1, "fail", 1.0)
    assert pool["figures"]["kv_cache_size_tokens"] == 2176
    assert judged(vllm("blocks17.prom", "blocks17-models.json"), headroom=1)[0] == 0


def test_what_is_promised_above_a_vllm_is_a_danger_band(judged: Any) -> None:  # noqa: ANN401
    _, judgement = judged(vllm("blocks17.prom", "blocks17-models.json"), context=4096)
    pool = check_in(judgement, "pool_covers_context")
    assert (pool["verdict"], pool["figures"]["danger_band"]) == ("fail", [2048, 4095])
    assert "--max-model-len" in pool["reason"]


def test_a_vllm_that_moves_kv_is_not_waved_through_as_unified(judged: Any) -> None:  # noqa: ANN401
    code, judgement = judged(vllm("pd-metrics.prom", "models.json"))
    assert (code, judgement["verdict"]) == (2, "inconclusive")
    for name in ("pool_covers_context", "pair_exposure", "safe_rejection"):
        check = check_in(judgement, name)
        assert check["verdict"] == "inconclusive"
        assert "NixlConnector" in check["reason"]


def test_no_rule_tells_whether_a_split_vllm_is_exposed(judged: Any) -> None:  # noqa: ANN401
    sides = [
        vllm("pd-metrics.prom", "models.json", role=role, name=role)
        for role in ("prefill", "decode")
    ]
    code, judgement = judged(*sides)
    assert code == 2
    assert check_in(judgement, "pair_exposure")["verdict"] == "inconclusive"


def test_unified_slots_are_not_proved_and_separate_ones_neither(judged: Any) -> None:  # noqa: ANN401
    for which in ("", "unified_"):
        code, judgement = judged(llamacpp(which))
        pool = check_in(judgement, "pool_covers_context")
        assert (code, pool["verdict"], pool["figures"]["pool"]) == (2, "inconclusive", None)
        assert "kv_unified" in pool["reason"]


@pytest.mark.parametrize(
    ("value", "code", "pool"), [("false", 0, 2048), ("true", 1, 1024), ("maybe", 2, None)]
)
def test_a_verdict_on_slots_that_rests_on_a_word_says_so(
    value: str,
    code: int,
    pool: int | None,
    judged: Any,  # noqa: ANN401
) -> None:
    word = {"value": value, "reason": "seen on the command line", "by": "ada"}
    answered, judgement = judged(llamacpp("", attested={"kv_unified": word}))
    check = check_in(judgement, "pool_covers_context")
    assert (answered, check["figures"]["pool"]) == (code, pool)
    if pool is not None:
        assert check["figures"]["attested"] == f"kv_unified={value} by ada"
        assert "attestation" in check["reason"]
        assert "ada" in check["reason"]


@pytest.mark.parametrize("engine", ["vllm", "llamacpp", "sglang"])
def test_every_engine_can_be_named_on_the_command_line(engine: str) -> None:
    parser = VerbParser(verb="gate", summary="")
    add_node_options(parser)
    assert parser.parse_args(["--engine", engine]).engine == engine


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["vllm", "llamacpp", "sglang"]),
    st.sampled_from([*Role]),
    st.lists(st.tuples(st.integers(0, 599), JSON), min_size=6, max_size=6),
    st.lists(st.text(max_size=60), max_size=2),
)
def test_no_body_whatever_passes_a_gate(
    engine: str, role: Role, bodies: list[tuple[int, object]], logs: list[str]
) -> None:
    adapter = ENGINES.get(engine)
    routes = [route for group in adapter.routes for route in group]
    responses = {
        route: Answer(status=status, json=body, text=body if isinstance(body, str) else None)
        for route, (status, body) in zip(routes, bodies, strict=False)
    }
    reading = adapter.read(
        NodeCapture(name="n", engine=engine, role=role, responses=responses, logs=tuple(logs))
    )
    judgement = judge_fleet(FleetReading(readings=(reading,)))
    assert judgement.verdict is not Verdict.PASS
    assert not [one for one in judgement.checks if one.required and one.verdict is Verdict.PASS]
    json.dumps(judgement.document(), allow_nan=False)
