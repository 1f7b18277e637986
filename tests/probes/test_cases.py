"""Public reports of people who do this job: judged through the verb, or named as pending."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from probes.verbs import judge

DATA = Path(__file__).resolve().parent.parent / "data"
AREAS = ("a-pool-vs-context-gate", "d-version-advisory", "e-config-drift")
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for line in (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    if (case := json.loads(line))["area"] in AREAS
}

#: Cases that need an engine or a gate which is not built yet: exact, so that none drops silently.
PENDING: dict[str, str] = {}

#: The reports' words for a verdict of the product (issue 3, "What it must show", 1).
WORDS = {
    "PASS": "pass",
    "FAIL": "fail",
    "INCONCLUSIVE": "inconclusive",
    "INCONCLUSIVE/blocks": "inconclusive",
    "BLOCK": "fail",
    "WARN": "fail",  # and advisory: the trial says so
    "AFFECTED": "fail",
    "AFFECTED_ASSUMED": "inconclusive",
    "UNKNOWN": "inconclusive",
    "NOT_AFFECTED": "pass",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One capture that a case amounts to, and what the judgement must say of one check."""

    capture: Mapping[str, Any]
    verdict: str
    check: str = "pool_covers_context"
    figures: Mapping[str, object] = field(default_factory=dict)
    before: Mapping[str, Any] | None = None
    is_advisory: bool = False
    says: tuple[str, ...] = ()


def verdict_in(words: str) -> str:
    """Answer the verdict that a report's words begin with."""
    return WORDS[words.split(maxsplit=1)[0].rstrip(",:")]


def answered(document: object, status: int = 200) -> dict[str, object]:
    return {"status": status, "json": document}


def node(
    info: Mapping[str, object] | None,
    others: Mapping[str, object] | None = None,
    *,
    role: str = "unified",
    name: str = "n",
) -> dict[str, object]:
    responses = {} if info is None else {"GET /server_info": answered(info)}
    return {
        "name": name,
        "engine": "sglang",
        "role": role,
        "responses": {**responses, **(others or {})},
    }


def capture(*nodes: Mapping[str, object], margin: float | None = None) -> dict[str, object]:
    """Answer a capture; a report's headroom is the part above 1."""
    headroom = {} if margin is None else {"headroom": str(1 + Decimal(str(margin)))}
    return {**headroom, "nodes": list(nodes)}


def models(length: object) -> dict[str, object]:
    return answered({"data": [{"id": "m", "max_model_len": length}]})


def g01(case: dict[str, Any]) -> Iterator[Trial]:
    given, said = case["input"], case["expected"]
    figures = {name: said[name] for name in ("pool", "context", "required", "danger_band")}
    responses = {"GET /v1/models": answered(given["GET /v1/models"])}
    one = node(given["GET /server_info"], responses, role=given["role"])
    yield Trial(
        capture=capture(one, margin=given["headroom"]),
        verdict=verdict_in(said["verdict"]),
        figures={**figures, "ratio": pytest.approx(said["ratio"], abs=5e-4)},
    )


def g02(case: dict[str, Any]) -> Iterator[Trial]:
    given, said = case["input"], case["expected"]
    responses = {"GET /v1/models": models(given["v1_models_max_model_len"])}
    yield Trial(
        capture=capture(node(given["server_info"], responses), margin=given["headroom"]),
        verdict=verdict_in(said["verdict"]),
        figures={name: said[name] for name in ("pool", "required", "danger_band")},
    )


def g03(case: dict[str, Any]) -> Iterator[Trial]:
    given, said = case["input"], case["expected"]
    responses = {"GET /v1/models": models(given["v1_models_max_model_len"])}
    yield Trial(
        capture=capture(node(given["server_info"], responses, role=given["role"])),
        verdict=verdict_in(said["verdict"]),
        figures={"pool": said["effective_limit"]},
    )


def g04(case: dict[str, Any]) -> Iterator[Trial]:
    for given, said in zip(case["input"], case["expected"], strict=True):
        memory = {
            "token_capacity": given["max_total_num_tokens"],
            "token_capacity_swa": given["swa_tokens"],
        }
        info = {
            "max_total_num_tokens": given["max_total_num_tokens"],
            "max_req_input_len": given["max_req_input_len"],
            "internal_states": [{"memory_usage": memory}],
        }
        yield Trial(
            capture=capture(node(info, {"GET /v1/models": models(given["max_model_len"])})),
            verdict=verdict_in(said["verdict"]),
            figures={
                "pool": said["effective_limit"],
                "full_pool": given["max_total_num_tokens"],
                "sliding_window_pool": given["swa_tokens"],
            },
        )


def g05(case: dict[str, Any]) -> Iterator[Trial]:
    given = case["input"]["server_info"]
    state = {"memory_usage": {"token_capacity": given["max_total_num_tokens"]}}
    yield from _g05(case, {**given, "internal_states": [state] * given["dp_size"]})


def g05_as_reported(case: dict[str, Any]) -> Iterator[Trial]:
    yield from _g05(case, case["input"]["server_info"])


def _g05(case: dict[str, Any], info: Mapping[str, object]) -> Iterator[Trial]:
    said = case["expected"]
    responses = {"GET /v1/models": models(case["input"]["v1_models_max_model_len"])}
    yield Trial(
        capture=capture(node(info, responses)),
        verdict=verdict_in(said["verdict"]),
        figures={
            "pool": said["pool_per_rank"],
            "ratio": pytest.approx(said["ratio"], abs=5e-3),
        },
    )


def g06(case: dict[str, Any]) -> Iterator[Trial]:
    yield from _g06(case, {"model_path": "m"})


def g06_as_reported(case: dict[str, Any]) -> Iterator[Trial]:
    yield from _g06(case, None)


def _g06(case: dict[str, Any], info: Mapping[str, object] | None) -> Iterator[Trial]:
    said = case["expected"]
    text = "\n".join(case["input"]["metrics"]) + "\n"
    # 34,407 is what a margin of 0.05 makes of a context of 32,768.
    yield Trial(
        capture=capture(node(info, {"GET /metrics": {"status": 200, "text": text}}), margin=0.05),
        verdict=verdict_in(said["verdict"]),
        figures={name: said[name] for name in ("pool", "required")},
    )


def g07(case: dict[str, Any]) -> Iterator[Trial]:
    given, said = case["input"], case["expected"]
    responses = {
        "GET /server_info": answered({}, status=404),
        "GET /get_server_info": answered(given["body"], status=given["http"]),
    }
    yield Trial(capture=capture(node(None, responses)), verdict=verdict_in(said["verdict"]))


def g18(case: dict[str, Any]) -> Iterator[Trial]:
    for given, said in zip(case["input"], case["expected"], strict=True):
        responses = {"GET /v1/models": answered(None, status=int(given["v1_models"].split()[0]))}
        derived = 131_072 if said.startswith("PASS") else None
        yield Trial(
            capture=capture(node(given["server_info"], responses)),
            verdict=verdict_in(said),
            figures={"context": derived},
        )


def g22(case: dict[str, Any]) -> Iterator[Trial]:
    new, neither, html = case["input"]
    bodies = (
        {
            "GET /server_info": answered({}, status=new["GET /server_info"]),
            "GET /get_server_info": answered(new["body"]),
        },
        {route: answered({}, status=neither[route]) for route in neither},
        {"GET /server_info": {"status": html["GET /server_info"], "text": html["body"]}},
    )
    for responses, said in zip(bodies, case["expected"], strict=True):
        yield Trial(capture=capture(node(None, responses)), verdict=verdict_in(said))


def g23(case: dict[str, Any]) -> Iterator[Trial]:
    given, said = case["input"], case["expected"]
    responses = {"GET /v1/models": models(given["max_model_len"])}
    yield Trial(
        capture=capture(node(given["server_info"], responses)),
        verdict=verdict_in(said["gate"]),
        figures={
            "last_admitted": said["boundary_probe_plan"]["longest_admitted"],
            "context": said["boundary_probe_plan"]["context"],
            "danger_band": None,
        },
    )


def g24(case: dict[str, Any]) -> Iterator[Trial]:
    given = case["input"]["decode"]
    state = {"memory_usage": {"token_capacity": given["max_total_num_tokens"]}}
    yield from _g24(case, {"internal_states": [state] * given["dp_size"]})


def g24_as_reported(case: dict[str, Any]) -> Iterator[Trial]:
    yield from _g24(case, {})


def _g24(case: dict[str, Any], shown: Mapping[str, object]) -> Iterator[Trial]:
    given = case["input"]["decode"]
    info = {
        "dp_size": given["dp_size"],
        "max_total_num_tokens": given["max_total_num_tokens"],
        "context_length": given["context"],
        "max_req_input_len": given["context"] - 6,
        **shown,
    }
    # 735,000 is what a margin of 0.05 makes of a context of 700,000.
    yield Trial(
        capture=capture(node(info, role="decode"), margin=0.05),
        verdict=verdict_in(case["expected"]["gate"]),
        figures={"required": 735_000},
    )


def d04(case: dict[str, Any]) -> Iterator[Trial]:
    pair = case["input"]["pair"]
    sides = [
        node(
            {
                "disaggregation_mode": role,
                "tp_size": pair[role]["tp"],
                "attention_backend": pair[role]["attention_backend"],
                "max_req_input_len": 1_018,
            },
            role=role,
            name=role,
        )
        for role in ("prefill", "decode")
    ]
    yield Trial(
        capture=capture(*sides),
        check="pair_layout",
        verdict=verdict_in(case["expected"]["verdict"]),
        figures={
            "tp_size": f"{pair['prefill']['tp']} / {pair['decode']['tp']}",
            "attention_backend": "flashinfer / flashinfer",
        },
        is_advisory=True,
    )


def drifted(case: dict[str, Any], figures: Mapping[str, object]) -> Iterator[Trial]:
    before, after = (
        capture(node({**case["input"][when], "max_req_input_len": 1_018}))
        for when in ("before", "after")
    )
    yield Trial(
        capture=after,
        before=before,
        check="drift",
        verdict=verdict_in(case["expected"]["verdict"]),
        figures=figures,
        is_advisory=True,
    )


def d05(case: dict[str, Any]) -> Iterator[Trial]:
    (trial,) = drifted(case, {"layout.kv_cache_dtype": "bfloat16 -> fp8_e4m3"})
    yield trial
    yield replace(trial, check="persistent_cache", figures={"storage": "file"}, is_advisory=False)


def d06(case: dict[str, Any]) -> Iterator[Trial]:
    yield from drifted(case, {"layout.weights": "/m/a - 1 -> /m/b - 2"})


def d07(case: dict[str, Any]) -> Iterator[Trial]:
    info = case["input"]["server_info"]
    yield Trial(
        capture=capture(node({**info, "max_req_input_len": 1_018})),
        check="spill_directory",
        verdict=verdict_in(case["expected"]["verdict"]),
        figures={"ranks": info["tp_size"], "paths": info["extra"]["ssd_offload_path"]},
        is_advisory=True,
    )


def engine_of_vllm(
    *labels: Mapping[str, object], others: tuple[str, ...] = (), name: str = "n"
) -> dict[str, object]:
    """Answer a vLLM node by the labels of its capacity series, one mapping an engine."""
    lines = [
        "vllm:cache_config_info{" + ",".join(f'{key}="{one[key]}"' for key in one) + "} 1.0"
        for one in labels
    ]
    return vllm("\n".join([*lines, *others]) + "\n", name=name)


def vllm(metrics: str | None, *, name: str = "n", **over: object) -> dict[str, object]:
    responses = {} if metrics is None else {"GET /metrics": {"status": 200, "text": metrics}}
    return {"name": name, "engine": "vllm", "role": "unified", "responses": responses, **over}


def serving(one: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Answer the node with what it advertises to clients."""
    return {**one, "responses": {**one["responses"], "GET /v1/models": models(length)}}


def as_reported(case: dict[str, Any]) -> dict[str, Any]:
    """Answer a vLLM node with the metrics lines and the context of a report."""
    given = case["input"]
    one = vllm("\n".join(given["metrics"]) + "\n")
    return serving(one, given.get("v1_models_max_model_len") or given["context"])


def g10(case: dict[str, Any]) -> Iterator[Trial]:
    yield Trial(
        capture=capture(as_reported(case)),
        verdict=verdict_in(case["expected"]["verdict"]),
        figures={"pool": None},
    )


def g11(case: dict[str, Any]) -> Iterator[Trial]:
    said = case["expected"]
    one = {**as_reported(case), "logs": [case["input"]["startup_log"]]}
    yield Trial(
        capture=capture(one),
        verdict=verdict_in(said["verdict"]),
        figures={
            "pool": None,
            "label_product": said["derived"]["label_product"],
            "product_by_attention_block": said["derived"]["if_528"],
        },
    )


def g12(case: dict[str, Any]) -> Iterator[Trial]:
    said = case["expected"]
    yield Trial(
        capture=capture(as_reported(case)),
        verdict=verdict_in(said["verdict"]),
        figures={
            "pool": said["pool"],
            "ratio": pytest.approx(said["ratio"], abs=5e-4),
            "label_product": 643 * 4,
        },
    )


def g13(case: dict[str, Any]) -> Iterator[Trial]:
    said, given = case["expected"], case["input"]
    yield Trial(
        capture=capture(serving(vllm(None, logs=given["log"]), given["context"])),
        verdict=verdict_in(said["verdict"]),
        figures={
            "pool": said["conservative_pool"],
            "implied_pool": said["implied_pool"],
            "disagreement": 3.72,
        },
    )


def g14(case: dict[str, Any]) -> Iterator[Trial]:
    said, note = case["expected"], case["input"]["operator_note"]
    for attested in ({"note": note}, {"decode_context_parallel_size": note.split()[1]}):
        yield Trial(
            capture=capture({**as_reported(case), "attested": attested}),
            verdict=verdict_in(said["verdict"]),
            figures={
                "pool": None,
                "local_pool": said["local_pool"],
                "claimed_pool": said["claimed_pool"],
            },
        )


def g15(case: dict[str, Any]) -> Iterator[Trial]:
    # 68,813 is what a margin of 0.05 makes of a context of 65,536; engine 0 alone would hold it.
    yield Trial(
        capture=capture(as_reported(case), margin=0.05),
        verdict=verdict_in(case["expected"]["verdict"]),
        figures={"pool": 120_000, "required": 68_813},
    )


def g16(case: dict[str, Any]) -> Iterator[Trial]:
    given, said = case["input"], case["expected"]
    one = serving(
        engine_of_vllm({"kv_cache_size_tokens": given["kv_cache_size_tokens"]}),
        given["max_model_len_running"],
    )
    # 21,286 is what a margin of 0.05 makes of a context of 20,272.
    yield Trial(
        capture=capture(one, margin=0.05),
        verdict=verdict_in(said["verdict"]),
        figures={"ratio": said["ratio"], "required": said["required"], "danger_band": None},
    )
    # The second finding: promised elsewhere as 40,960, refused from 20,272 on.
    yield Trial(
        capture={**capture(one, margin=0.05), "context": given["native_context"]},
        verdict=verdict_in(said["verdict"]),
        figures={"danger_band": [given["kv_cache_size_tokens"], given["native_context"] - 1]},
    )


def g17(case: dict[str, Any]) -> Iterator[Trial]:
    given = case["input"]
    silent = {"GET /metrics": {"status": 0, "error": given["GET /metrics"]}}
    yield Trial(
        capture=capture(vllm(None, responses=silent, logs=[given["last_log"]])),
        verdict=verdict_in(case["expected"]["verdict"]),
        figures={"pool": None},
        says=("23,648", "29,000", given["GET /metrics"]),
    )


def g20(case: dict[str, Any]) -> Iterator[Trial]:
    given, said = case["input"], case["expected"]
    # A context that the full pool of 4,096 holds with headroom, so that the step alone decides.
    for window in ({"sliding_window": given["sliding_window"]}, {}):
        memory = {"token_capacity": 4_096, "token_capacity_swa": given["swa_tokens"]}
        info = {
            "max_total_num_tokens": 4_096,
            "max_req_input_len": 2_042,
            "page_size": given["page_size"],
            "internal_states": [{"memory_usage": memory}],
            **window,
        }
        step = given["page_size"] + (given["sliding_window"] if window else 1)
        yield Trial(
            capture=capture(node(info, {"GET /v1/models": models(2_048)})),
            verdict=verdict_in(said["gate"]),
            figures={"sliding_window_pool": given["swa_tokens"], "scheduling_step": step},
        )


def g21(case: dict[str, Any]) -> Iterator[Trial]:
    given = case["input"]
    cap = given["reader_cap_bytes"]
    cut = 'vllm:vllm_config_info{a="' + "x" * 64
    line = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100000"} 1.0\n'
    for answer in (
        {"status": 0, "error": f"answers with more than the {cap} bytes that are taken"},
        {"status": 200, "text": line + cut},
        {"status": 200, "text": line + "# " + "x" * cap + "\n"},
    ):
        one = serving(vllm(None, responses={"GET /metrics": answer}), 4_096)
        yield Trial(
            capture=capture(one),
            verdict=verdict_in(case["expected"]["verdict"]),
            figures={"pool": None},
        )


def d01(case: dict[str, Any]) -> Iterator[Trial]:
    before, after = (
        capture(
            serving(
                engine_of_vllm(
                    {
                        "gpu_memory_utilization": one["gpu_memory_utilization"],
                        "kv_cache_size_tokens": one["pool"],
                    }
                ),
                one["max_model_len"],
            )
        )
        for one in (case["input"]["before"], case["input"]["after"])
    )
    yield Trial(
        capture=after,
        before=before,
        check="drift",
        verdict="fail",
        figures={
            "flags.gpu_memory_utilization": "0.75 -> 0.7",
            "flags.max_model_len": "195968 -> 117264",
            "pool": "195968 -> 117264",
        },
        is_advisory=True,
    )


def d02(case: dict[str, Any]) -> Iterator[Trial]:
    clusters = [
        serving(
            engine_of_vllm(
                {"gpu_memory_utilization": one["util"], "kv_cache_size_tokens": one["pool"]}
            ),
            one["max_model_len"],
        )
        for one in (case["input"]["cluster_a"], case["input"]["cluster_b"])
    ]
    for one, said in zip(clusters, case["expected"]["gate"], strict=True):
        ratio = float(said.split()[1].rstrip("x"))
        yield Trial(
            capture=capture(one),
            verdict=verdict_in(said),
            figures={"ratio": pytest.approx(ratio, abs=5e-3)},
        )
    # The memory flags are the same; the pool that was measured is not.
    yield Trial(
        capture=capture(clusters[1]),
        before=capture(clusters[0]),
        check="drift",
        verdict="fail",
        figures={"pool": "398000 -> 2450000", "flags.gpu_memory_utilization": None},
        is_advisory=True,
    )


def d08(case: dict[str, Any]) -> Iterator[Trial]:
    said = case["expected"]
    for given, pool, gate in zip(case["input"]["series"], said["pools"], said["gate"], strict=True):
        labels = {"num_gpu_blocks": given["blocks"], "block_size": given["block_size"]}
        yield Trial(
            capture=capture(serving(engine_of_vllm(labels), given["max_model_len"])),
            verdict=verdict_in(gate),
            # One block is never usable (design), which the report's own product does not know.
            figures={
                "danger_band": [pool - given["block_size"], given["max_model_len"] - 1]
                if gate.startswith("FAIL")
                else None,
                "pool": pool - given["block_size"],
                "ratio": pytest.approx(float(gate.split()[1].rstrip("x")), abs=1e-2),
            },
        )


def advised(
    version: str,
    expected: str,
    *,
    advisory: Mapping[str, object] | None = None,
    check: str = "CASE",
    metrics: str = "vllm:cache_config_info 1.0\n",
) -> Trial:
    """Answer a vLLM node of a version, and what one advisory must say of it."""
    responses = {
        "GET /metrics": {"status": 200, "text": metrics},
        "GET /version": answered({"version": version}),
    }
    brought = {} if advisory is None else {"advisories": [{"id": "CASE", **advisory}]}
    return Trial(
        capture={**capture(vllm(None, responses=responses)), **brought},
        check=f"advisories.{check}",
        verdict=verdict_in(expected),
        figures={"standing": expected.split(maxsplit=1)[0]},
        is_advisory=True,
    )


def v01(case: dict[str, Any]) -> Iterator[Trial]:
    """The advisory comes with the product; vLLM shows its Python and its cache as metrics."""
    for given, said in zip(case["input"], case["expected"], strict=True):
        metrics = (
            f'vllm:cache_config_info{{enable_prefix_caching="{given["prefix_caching"]}"}} 1.0\n'
        )
        if given["python"] is not None:
            metrics += f'python_info{{version="{given["python"]}"}} 1.0\n'
        yield advised(given["vllm"], said, check="PAGEWARDEN-2026-0005", metrics=metrics)


def v04(case: dict[str, Any]) -> Iterator[Trial]:
    given = case["input"]
    yield advised(given["engine"]["v"], case["expected"]["verdict"], advisory=given["advisory"])


def v05(case: dict[str, Any]) -> Iterator[Trial]:
    given = case["input"]
    for version, said in zip(given["engines"], case["expected"]["verdicts"], strict=True):
        yield advised(version, said, advisory={"fixed": given["fixed"]})


def v06(case: dict[str, Any]) -> Iterator[Trial]:
    pairs = case["input"]["pairs_engine_fixed"]
    for (version, fixed), said in zip(pairs, case["expected"]["verdicts"], strict=True):
        yield advised(version, said, advisory={"fixed": fixed})


JUDGED: Mapping[str, Callable[[dict[str, Any]], Iterator[Trial]]] = {
    "G01": g01,
    "G02": g02,
    "G03": g03,
    "G04": g04,
    "G05": g05,
    "G06": g06,
    "G07": g07,
    "G10": g10,
    "G11": g11,
    "G12": g12,
    "G13": g13,
    "G14": g14,
    "G15": g15,
    "G16": g16,
    "G17": g17,
    "G18": g18,
    "G20": g20,
    "G21": g21,
    "G22": g22,
    "G23": g23,
    "G24": g24,
    "D01": d01,
    "D02": d02,
    "D04": d04,
    "D05": d05,
    "D06": d06,
    "D07": d07,
    "D08": d08,
    "V01": v01,
    "V04": v04,
    "V05": v05,
    "V06": v06,
}
#: The same inputs to the letter, without an answer that every real engine of these versions gives.
TO_THE_LETTER = [
    pytest.param("G05", g05_as_reported, id="G05"),
    pytest.param("G06", g06_as_reported, id="G06"),
    pytest.param("G24", g24_as_reported, id="G24"),
]

#: Judged by a test of their own below.
APART = {"G19", "V03"}


def test_every_case_is_judged_or_named_with_a_reason() -> None:
    assert {*JUDGED} | APART | {*PENDING} == {*CASES}
    assert not ({*JUDGED} | APART) & {*PENDING}
    assert all(PENDING.values())


@pytest.mark.parametrize("case_id", sorted(JUDGED))
def test_case(case_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trials = list(JUDGED[case_id](CASES[case_id]))
    assert trials
    hold(trials, tmp_path, capsys)


@pytest.mark.parametrize(("case_id", "make_trials"), TO_THE_LETTER)
def test_case_to_the_letter(
    case_id: str,
    make_trials: Callable[[dict[str, Any]], Iterator[Trial]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hold([*make_trials(CASES[case_id])], tmp_path, capsys)


def hold(trials: list[Trial], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Judge every trial through the verb and hold the judgement against the report."""
    for number, trial in enumerate(trials):
        arguments = [_saved(tmp_path / f"{number}.json", trial.capture), "--json"]
        if trial.before is not None:
            arguments += ["--before", _saved(tmp_path / f"{number}-before.json", trial.before)]
        code = judge.main(arguments)
        judgement = json.loads(capsys.readouterr().out)
        (check,) = [one for one in judgement["checks"] if one["check"] == trial.check]
        assert check["verdict"] == trial.verdict, check["reason"]
        assert check["required"] is not trial.is_advisory
        shown = {name: check["figures"].get(name) for name in trial.figures}
        assert shown == trial.figures
        assert all(word in check["reason"] for word in trial.says), check["reason"]
        if trial.verdict == "fail" and not trial.is_advisory:
            assert code == 1
        elif trial.verdict == "inconclusive":
            assert code == 2


def test_case_g19_no_secret_leaves_the_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES["G19"]
    info = case["input"]["server_info"]
    path = _saved(tmp_path / "g19.json", capture(node(info)))
    judge.main([path, "--json"])
    judge.main([path])
    judge.main([path, "--before", path])
    shown = capsys.readouterr()
    for name in case["expected"]["must_not_store_or_export"]:
        assert info[name] not in shown.out + shown.err


def test_case_v03_a_rumour_neither_passes_nor_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES["V03"]
    given = case["input"]["advisory"]
    for version in (case["input"]["engine"]["v"], "0.7.0"):
        trial = advised(version, "UNKNOWN", advisory=given)
        judge.main([_saved(tmp_path / "v03.json", trial.capture), "--json"])
        judgement = json.loads(capsys.readouterr().out)
        name = f"advisories.{given['id']}"
        assert name not in {one["check"] for one in judgement["checks"]}
        (told,) = [one for one in judgement["skipped"] if one["check"] == name]
        assert case["expected"]["status"] in told["reason"]


def _saved(path: Path, document: Mapping[str, Any]) -> str:
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)
