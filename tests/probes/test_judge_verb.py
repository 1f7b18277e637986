"""The verb ``judge``: real recordings, wrong usage, drift, and what reaches standard output."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from common.exits import UsageError
from fleet.captures import parse_capture
from fleet.contract import ENGINES
from probes.contract import DEFAULT_REQUIRED
from probes.exercised import process_print
from probes.verbs import judge

READINGS = Path(__file__).resolve().parent.parent / "data" / "sglang" / "readings"
#: Lengths follow from the pools and the context of 4,096: F = pool - 6, or context - 6.
SMALL_BAND = [1_018, 4_095]


def judged(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, Any], dict[tuple[str, str], dict[str, Any]]]:
    code = judge.main([*arguments, "--json"])
    shown = capsys.readouterr()
    assert shown.err == ""
    judgement = json.loads(shown.out)
    return code, judgement, {(one["check"], one["target"]): one for one in judgement["checks"]}


def recorded(name: str) -> str:
    return str(READINGS / f"{name}.json")


def edited(path: Path, name: str, **changes: dict[str, Any]) -> str:
    """Answer a recording with other figures, consistent as an engine would show them."""
    document = json.loads((READINGS / f"{name}.json").read_text(encoding="utf-8"))
    for node in document["nodes"]:
        change = changes.get(node["role"], {})
        node["responses"]["GET /server_info"]["json"].update(change.get("server_info", {}))
        if "pool" in change:
            _give_pool(node["responses"], change["pool"])
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def _give_pool(responses: dict[str, Any], pool: int) -> None:
    info = responses["GET /server_info"]["json"]
    info["max_total_num_tokens"] = pool
    info["max_req_input_len"] = min(4_096, pool) - 6
    info["internal_states"][0]["memory_usage"]["token_capacity"] = pool
    responses.pop("GET /v1/loads")
    responses.pop("GET /metrics")


PAIR = "prefill-1/decode-1"
#: Recording, verdicts of exposure and rejection, band: design, "September", and issue 3, 2.
RECORDINGS = [
    ("0.5.19-pd-1024-4096", "fail", "fail", [1_018, 4_089]),
    ("0.5.19-pd-1024-1024", "pass", "fail", None),
    ("0.5.22-pd-1024-4096", "pass", "pass", [1_018, 4_089]),
    ("0.5.23-pd-1024-4096", "pass", "pass", [1_018, 4_089]),
    ("0.5.23-pd-1024-1024", "pass", "pass", None),
]


@pytest.mark.parametrize(("name", "exposure", "rejection", "band"), RECORDINGS)
def test_real_pairs(
    capsys: pytest.CaptureFixture[str],
    name: str,
    exposure: str,
    rejection: str,
    band: list[int] | None,
) -> None:
    code, judgement, checks = judged(capsys, recorded(name))
    assert (code, judgement["verdict"]) == (1, "fail")
    assert checks["pair_exposure", PAIR]["verdict"] == exposure
    assert checks["pair_exposure", PAIR]["figures"]["band"] == band
    assert checks["safe_rejection", "prefill-1"]["verdict"] == rejection
    assert checks["safe_rejection", "decode-1"]["verdict"] == rejection
    assert checks["pair_match", PAIR]["verdict"] == "pass"
    assert checks["pair_layout", PAIR]["verdict"] == "pass"
    prefill = checks["pool_covers_context", "prefill-1"]
    assert prefill["verdict"] == "fail"
    assert prefill["figures"]["danger_band"] == SMALL_BAND
    assert prefill["figures"]["required"] == 5_120
    # The recordings show that no node has a disk tier.
    assert "spill_directory" in {one["check"] for one in judgement["skipped"]}
    assert not {one["check"] for one in judgement["skipped"]} & {*DEFAULT_REQUIRED}


def test_a_real_unified_node_fails_by_its_pool_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, judgement, checks = judged(capsys, recorded("0.5.19-unified-1024"))
    assert code == 1
    assert [key for key, one in checks.items() if one["required"]] == [
        ("pool_covers_context", "unified-1")
    ]
    assert checks["pool_covers_context", "unified-1"]["figures"]["danger_band"] == SMALL_BAND
    assert {one["check"] for one in judgement["skipped"]} >= {
        "pair_exposure",
        "pair_match",
        "pair_layout",
        "safe_rejection",
    }


def test_roomy_equal_pools_fail_on_0_5_19_by_safe_rejection_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roomy = {"prefill": {"pool": 5_632}, "decode": {"pool": 5_632}}
    path = edited(tmp_path / "c.json", "0.5.19-pd-1024-4096", **roomy)
    code, _, checks = judged(capsys, path)
    assert code == 1
    required = [(key[0], one["verdict"]) for key, one in checks.items() if one["required"]]
    assert {name for name, verdict in required if verdict != "pass"} == {"safe_rejection"}


def test_roomy_equal_pools_pass_on_0_5_23(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roomy = {"prefill": {"pool": 5_632}, "decode": {"pool": 5_632}}
    path = edited(tmp_path / "c.json", "0.5.23-pd-1024-4096", **roomy)
    code, judgement, _ = judged(capsys, path)
    assert (code, judgement["verdict"]) == (0, "pass")


def test_auto_truncate_exposes_the_guarded_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truncating = {"prefill": {"server_info": {"allow_auto_truncate": True}}}
    path = edited(tmp_path / "c.json", "0.5.23-pd-1024-4096", **truncating)
    _, _, checks = judged(capsys, path)
    assert checks["pair_exposure", PAIR]["verdict"] == "fail"


@pytest.mark.parametrize(
    "name", ["max_req_input_len", "version", "disaggregation_mode", "kv_cache_dtype", "model_path"]
)
def test_a_field_that_goes_missing_never_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    pools = {"prefill": {"pool": 5_632}, "decode": {"pool": 5_632}}
    path = Path(edited(tmp_path / "c.json", "0.5.23-pd-1024-4096", **pools))
    document = json.loads(path.read_text(encoding="utf-8"))
    for responses in (node["responses"] for node in document["nodes"]):
        for answer in responses.values():
            body = answer.get("json") or {}
            for part in (body, *body.get("internal_states", [])):
                part.pop(name, None)
    path.write_text(json.dumps(document), encoding="utf-8")
    code, judgement, _ = judged(capsys, str(path))
    assert (code, judgement["verdict"]) == (2, "inconclusive")


def test_a_node_that_did_not_answer_is_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = {"status": 0, "error": "timeout"}
    node = {"name": "p0", "engine": "sglang", "role": "unified"}
    path = tmp_path / "c.json"
    document = {"nodes": [{**node, "responses": {"GET /server_info": silent}}]}
    path.write_text(json.dumps(document), encoding="utf-8")
    code, _, checks = judged(capsys, str(path))
    assert code == 2
    assert "timeout" in checks["pool_covers_context", "p0"]["reason"]


def test_the_option_overrides_the_headroom_of_the_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pools = {"prefill": {"pool": 4_096}, "decode": {"pool": 4_096}}
    path = edited(tmp_path / "c.json", "0.5.23-pd-1024-4096", **pools)
    assert judged(capsys, path)[0] == 1
    assert judged(capsys, path, "--headroom", "1")[0] == 0
    assert judged(capsys, path, "--headroom=1.001")[0] == 1


def test_a_context_may_only_raise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = {"prefill": {"pool": 5_632}, "decode": {"pool": 5_632}}
    path = edited(tmp_path / "c.json", "0.5.23-pd-1024-4096", **pools)
    assert judged(capsys, path, "--context", "4096")[0] == 0
    assert judged(capsys, path, "--context", "8192")[0] == 1
    with pytest.raises(UsageError, match="may only raise"):
        judge.main([path, "--context", "4095"])


def test_drift_is_told_and_does_not_block_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = edited(
        tmp_path / "now.json",
        "0.5.23-pd-1024-4096",
        prefill={"pool": 5_632},
        decode={"pool": 5_632},
    )
    before = edited(
        tmp_path / "before.json",
        "0.5.23-pd-1024-4096",
        prefill={"pool": 5_696},
        decode={"pool": 5_632},
    )
    code, judgement, checks = judged(capsys, now, "--before", before)
    assert (code, judgement["verdict"]) == (0, "pass")
    drifted = checks["drift", "prefill-1"]
    assert drifted["verdict"] == "fail"
    assert drifted["required"] is False
    assert drifted["figures"]["pool"] == "5696 -> 5632"
    assert checks["drift", "decode-1"]["verdict"] == "pass"


def test_standard_input_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Input:
        buffer = io.BytesIO((READINGS / "0.5.19-pd-1024-4096.json").read_bytes())

    monkeypatch.setattr(sys, "stdin", Input)
    assert judged(capsys, "-")[0] == 1


def test_the_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge.main([recorded("0.5.19-pd-1024-4096")]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("verdict: fail\n")
    assert "band=[1,018, 4,089]" in shown


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("{", []),
        ("[]", []),
        ("{}", []),
        ('{"nodes": 7}', []),
        ('{"nodes": [{"name": "a", "engine": "sglang", "role": "both"}]}', []),
        ('{"nodes": [{"name": "a", "engine": "nothing", "role": "unified"}]}', []),
        ('{"headroom": 0.9, "nodes": [{"name": "a", "engine": "sglang", "role": "decode"}]}', []),
        ('{"headroom": "x", "nodes": [{"name": "a", "engine": "sglang", "role": "decode"}]}', []),
        (None, ["--headroom", "0.99"]),
        (None, ["--headroom", "nan"]),
        (None, ["--headroom", "much"]),
        (None, ["--context", "-1"]),
        (None, ["--context", "lots"]),
        (None, ["--jso"]),
        (None, ["--before", "there-is-no-such-file.json"]),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, text: str | None, arguments: list[str]) -> None:
    path = tmp_path / "c.json"
    path.write_text(
        Path(recorded("0.5.23-pd-1024-1024")).read_text(encoding="utf-8") if text is None else text,
        encoding="utf-8",
    )
    with pytest.raises(UsageError) as refused:
        judge.main([str(path), *arguments])
    assert str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.json: it cannot be read: No such file"):
        judge.main([str(tmp_path / "missing.json")])
    with pytest.raises(UsageError, match="it cannot be read: Is a directory"):
        judge.main([str(tmp_path)])
    with pytest.raises(UsageError, match="only one of"):
        judge.main(["-", "--before", "-"])


def test_a_capture_without_nodes_proves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"nodes": []}', encoding="utf-8")
    code, judgement, _ = judged(capsys, str(path))
    assert (code, judgement["verdict"]) == (2, "inconclusive")


def test_a_canary_document_in_the_capture_lets_an_attested_patch_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((READINGS / "0.5.19-pd-1024-1024.json").read_text(encoding="utf-8"))
    digest = "sha256:" + "c" * 64
    for node in document["nodes"]:
        word = {"value": digest, "by": "ann", "reason": "our build", "until": "2099-01-01"}
        node["attested"] = {"patch.38935": word, "image_digest": word}
    path = tmp_path / "c.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    _, _, checks = judged(capsys, str(path))
    assert checks["safe_rejection", "prefill-1"]["verdict"] == "inconclusive"
    prints = {
        one.name: process_print(ENGINES.get("sglang").read(one))
        for one in parse_capture(path.read_bytes()).nodes
    }
    rows = [{"duty": "refusal", "outcome": "refused"}]
    seen = {"way": "pair", "target": f"pair {PAIR}", "fingerprints": prints, "rows": rows}
    path.write_text(json.dumps({**document, "canary": {"rounds": [seen]}}), encoding="utf-8")
    _, _, checks = judged(capsys, str(path))
    for node in ("prefill-1", "decode-1"):
        check = checks["safe_rejection", node]
        assert check["verdict"] == "pass"
        assert "the word of ann (our build)" in check["reason"]
