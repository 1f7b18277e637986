"""Ranks that share one directory of the disk tier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.gates.spill_directory import SpillDirectory
from probes.judgement import Check, Skipped
from probes.verbs import judge
from tests.probes.builders import unified

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def judged(flags: dict[str, str | None], **parallel: str | None) -> Check | Skipped:
    reading: Reading = unified(flags=flags, parallel={"tp_size": "8", **parallel})
    (found,) = SpillDirectory().judge(FleetReading(readings=(reading,)))
    return found


def spilling(path: str | None, back_end: str | None = "mooncake") -> dict[str, str | None]:
    return {"hicache_storage_backend": back_end, "spill_paths": path}


@pytest.mark.parametrize(
    ("flags", "parallel", "verdict"),
    [
        (spilling("/nvme/kv"), {}, FAIL),
        (spilling("/nvme/kv"), {"tp_size": "1", "pp_size": "2"}, FAIL),
        (spilling("/nvme/kv"), {"tp_size": "1", "dp_size": "2"}, FAIL),
        (spilling("/nvme/kv"), {"tp_size": "1"}, PASS),
        (spilling("/nvme/kv/{tp_rank}"), {}, PASS),
        (spilling("/nvme/kv/rank%d"), {}, PASS),
        (spilling("/nvme/$RANK/kv"), {}, PASS),
        (spilling("/nvme/{rank}, /nvme/kv"), {}, FAIL),
        (spilling("/nvme/kv/rank0"), {}, OPEN),
        (spilling(None), {}, OPEN),
        (spilling("/nvme/kv"), {"tp_size": None}, OPEN),
        ({}, {}, OPEN),
    ],
)
def test_a_path_needs_a_part_of_each_rank(
    flags: dict[str, str | None], parallel: dict[str, str | None], verdict: Verdict
) -> None:
    check = judged(flags, **parallel)
    assert isinstance(check, Check)
    assert check.verdict is verdict, check.reason


def test_a_node_without_a_disk_tier_is_skipped() -> None:
    assert isinstance(judged(spilling(None, "null")), Skipped)


def through_the_verb(info: dict[str, Any], tmp_path: Path, capsys: Any) -> dict[str, Any]:  # noqa: ANN401
    answers = {"GET /server_info": {"status": 200, "json": {"max_req_input_len": 9, **info}}}
    node = {"name": "n", "engine": "sglang", "role": "unified", "responses": answers}
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"nodes": [node]}), encoding="utf-8")
    judge.main([str(path), "--json"])
    found = json.loads(capsys.readouterr().out)["checks"]
    (check,) = [one for one in found if one["check"] == "spill_directory"]
    whole: dict[str, Any] = check
    return whole


def test_the_path_is_found_in_the_storage_settings_and_their_secrets_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = json.dumps({"storage_dir": "/nvme/kv", "secret_key": "s3cr3t", "master": "10.0.0.1"})
    info = {
        "tp_size": 8,
        "hicache_storage_backend": "nixl",
        "hicache_storage_backend_extra_config": settings,
    }
    check = through_the_verb(info, tmp_path, capsys)
    assert (check["verdict"], check["figures"]["paths"]) == ("fail", "/nvme/kv")
    assert "s3cr3t" not in json.dumps(check)
