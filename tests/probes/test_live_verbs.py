"""``gate`` and ``capture`` against the drill, with presets and with figures nobody preset."""

from __future__ import annotations

import json
import random
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.exits import UsageError
from probes import artefacts
from probes.verbs import capture, gate, judge

StartDrill = Callable[..., Any]


def addresses(drill: Any) -> list[str]:  # noqa: ANN401 - what the drill's first line said
    return [part for node in drill.nodes for part in (f"--{node['role']}", node["url"])]


def gated(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    code = gate.main(["--engine", "sglang", *arguments, "--json"])
    checks: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(capsys.readouterr().out)["checks"]:
        checks.setdefault(one["check"], []).append(one)
    return code, checks


def test_september(start_drill: StartDrill, capsys: pytest.CaptureFixture[str]) -> None:
    drill = start_drill("--scenario", "september")
    code, checks = gated(capsys, *addresses(drill))
    assert code == 1
    assert [one["figures"]["band"] for one in checks["pair_exposure"]] == [[10_618, 16_377]]
    bands = [one["figures"]["danger_band"] for one in checks["pool_covers_context"]]
    assert bands == [[10_618, 16_383], None]
    assert gated(capsys, "--router", drill.router) == (code, checks)


def test_healthy(start_drill: StartDrill, capsys: pytest.CaptureFixture[str]) -> None:
    drill = start_drill("--scenario", "healthy")
    code, checks = gated(capsys, *addresses(drill))
    assert code == 0
    judged = [one for group in checks.values() for one in group]
    assert {one["verdict"] for one in judged if one["required"]} == {"pass"}
    # As shipped: the checksum is off by default, and no engine shows its environment by itself.
    assert {one["check"] for one in judged if one["verdict"] != "pass"} == {
        "corruption_detection",
        "bounded_transfer",
    }


def test_equal_pools(start_drill: StartDrill, capsys: pytest.CaptureFixture[str]) -> None:
    drill = start_drill("--scenario", "equal-pools")
    code, checks = gated(capsys, *addresses(drill))
    assert code == 1
    (exposure,) = checks["pair_exposure"]
    assert (exposure["verdict"], exposure["figures"]["band"]) == ("pass", None)
    assert {one["verdict"] for one in checks["pool_covers_context"]} == {"fail"}


def test_figures_that_nobody_preset(
    start_drill: StartDrill, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = random.Random()  # noqa: S311 - no secret
    page = chosen.choice([16, 32])
    context = page * chosen.randrange(100, 400)
    small = page * chosen.randrange(20, context // page - 2)
    large = page * chosen.randrange(context // page, 900)
    drill = start_drill(
        *("--engine-version", "0.5.19", "--page-size", str(page), "--context", str(context)),
        *("--prefill-pool", str(small), "--decode-pool", str(large)),
    )
    code, checks = gated(capsys, *addresses(drill))
    told = (page, context, small, large)
    assert code == 1, told
    (exposure,) = checks["pair_exposure"]
    assert exposure["figures"]["band"] == [small - 6, min(context, large) - 7], told
    prefill = checks["pool_covers_context"][0]["figures"]
    assert prefill["danger_band"] == [small - 6, context - 1], told
    assert prefill["pool"] == small, told


def test_half_a_pair_is_inconclusive(
    start_drill: StartDrill, capsys: pytest.CaptureFixture[str]
) -> None:
    drill = start_drill("--scenario", "healthy")
    code, checks = gated(capsys, *addresses(drill)[:2])
    assert code == 2
    assert [one["verdict"] for one in checks["pair_exposure"]] == ["inconclusive"]


def test_swapped_roles_are_inconclusive(
    start_drill: StartDrill, capsys: pytest.CaptureFixture[str]
) -> None:
    drill = start_drill("--scenario", "september")
    urls = [node["url"] for node in drill.nodes]
    code, checks = gated(capsys, "--prefill", urls[1], "--decode", urls[0])
    assert code == 2
    required = [one for group in checks.values() for one in group if one["required"]]
    assert {one["verdict"] for one in required} == {"inconclusive"}


def test_a_context_below_the_engines_is_wrong_usage(start_drill: StartDrill) -> None:
    drill = start_drill("--scenario", "healthy")
    with pytest.raises(UsageError, match="may only raise"):
        gate.main(["--engine", "sglang", *addresses(drill), "--context", "16383"])


def test_a_node_that_is_down_is_inconclusive_and_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    code, checks = gated(capsys, "--unified", f"http://127.0.0.1:{port}")
    assert code == 2
    assert "unified-1" in checks["pool_covers_context"][0]["reason"]


def test_what_was_captured_is_judged_alike(
    start_drill: StartDrill, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drill = start_drill("--scenario", "september")
    live = gated(capsys, *addresses(drill))
    path = tmp_path / "c.json"
    asked = ["--engine", "sglang", *addresses(drill), "-o", str(path)]
    assert capture.main(asked) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [path]
    said = capsys.readouterr()
    assert said.out == ""
    assert "saved 2 nodes" in said.err
    code = judge.main([str(path), "--json"])
    saved = json.loads(capsys.readouterr().out)["checks"]
    assert (code, saved) == (live[0], [one for group in live[1].values() for one in group])
    with pytest.raises(UsageError, match="exists already"):
        capture.main(asked)
    assert capture.main([*asked, "--force"]) == 0


def test_a_capture_of_a_silent_node_is_saved_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    path = tmp_path / "c.json"
    wanted = ["--engine", "sglang", "--unified", f"http://127.0.0.1:{port}", "-o", str(path)]
    assert capture.main(wanted) == 2
    assert "not answered: unified-1" in capsys.readouterr().err
    assert judge.main([str(path)]) == 2


def test_a_router_that_is_down_leaves_nothing_to_save(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    router = f"http://127.0.0.1:{port}"
    path = tmp_path / "c.json"
    assert capture.main(["--engine", "sglang", "--router", router, "-o", str(path)]) == 2
    assert router in capsys.readouterr().err
    assert not path.exists()
    assert gated(capsys, "--router", router)[0] == 2


def test_a_file_that_cannot_be_written_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        artefacts.write_private(tmp_path / "none" / "c.json", "{}", replace=False)


def test_a_file_made_in_the_meantime_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        artefacts.write_private(path, "{}", replace=False)
    assert path.read_text(encoding="utf-8") == "mine"
    assert [*tmp_path.iterdir()] == [path]
