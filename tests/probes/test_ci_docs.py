"""The steps of docs/ci.md: parsed as CI systems parse them, and run against the drill."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from markdown_it import MarkdownIt

from probes.verbs import gate
from tests.deployments import DrillCluster, DrillStarter

ROOT = Path(__file__).resolve().parents[2]


def workflows() -> tuple[dict[str, Any], dict[str, Any]]:
    """Answer the two YAML blocks of the page, in its order."""
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    blocks = [one for one in MarkdownIt().parse(text) if one.type == "fence" and one.info == "yaml"]
    github, gitlab = (yaml.safe_load(one.content) for one in blocks)
    return github, gitlab


def github_steps() -> list[tuple[str, str]]:
    """Answer step name and script of every step that runs Pagewarden."""
    jobs = workflows()[0]["jobs"]
    assert jobs["shift-traffic"]["needs"] == "gate"
    steps = [step for job in jobs.values() for step in job["steps"]]
    return [(step["name"], step["run"]) for step in steps if "./pagewarden" in step.get("run", "")]


def gitlab_steps() -> list[tuple[str, str]]:
    jobs = workflows()[1]
    assert jobs["shift-traffic"]["needs"] == ["gate"]
    assert jobs["gate"]["artifacts"]["reports"]["junit"] == "gate.xml"
    return [(name, "\n".join(jobs[name]["script"])) for name in ("gate", "shift-traffic")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Answer a checkout as a runner has it: only its entry, run by this Python."""
    entry = tmp_path / "pagewarden"
    entry.write_text(f'#!/bin/sh\nexec {sys.executable} -m config.cli "$@"\n', encoding="utf-8")
    entry.chmod(0o755)
    keys = tmp_path / "keys"
    keys.mkdir()
    assert gate.main(["--new-proof-key", str(keys / "ci")]) == 0
    return tmp_path


def run(folder: Path, script: str, drill: DrillCluster, *, keys_are_files: bool) -> int:
    keys = {"PROOF_KEY": folder / "keys" / "ci.key", "PROOF_PUBLIC_KEY": folder / "keys" / "ci.pub"}
    urls = {f"{node['role'].upper()}_URL": node["url"] for node in drill.nodes}
    shown = {
        name: str(path) if keys_are_files else path.read_text(encoding="utf-8")
        for name, path in keys.items()
    }
    # As both systems run a script: the first command that fails ends it. Two seconds are enough
    # for a drill that is up.
    done = subprocess.run(  # noqa: S603 - the page's own steps
        ["/bin/bash", "-e", "-c", script.replace("--wait 600", "--wait 2")],
        cwd=folder,
        env={**os.environ, **urls, **shown, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert "PRIVATE KEY" not in done.stdout + done.stderr
    # A failing step shows what it said.
    print(done.stderr)  # noqa: T201
    return done.returncode


@pytest.mark.parametrize(
    ("steps", "keys_are_files"),
    [
        pytest.param(github_steps, False, id="github"),
        pytest.param(gitlab_steps, True, id="gitlab"),
    ],
)
def test_the_steps_gate_a_deploy(
    steps: Any,  # noqa: ANN401 - one of the two above
    keys_are_files: bool,
    folder: Path,
    start_drill: DrillStarter,
) -> None:
    (_, judge), (_, verify) = steps()
    healthy = start_drill("--scenario", "healthy")
    assert run(folder, judge, healthy, keys_are_files=keys_are_files) == 0
    assert run(folder, verify, healthy, keys_are_files=keys_are_files) == 0
    for name in ("gate.xml", "proof.xml"):
        root = ET.parse(folder / name).getroot()  # noqa: S314 - our own
        assert (root.attrib["failures"], root.attrib["errors"]) == ("0", "0")
    assert not (folder / "proof.key").exists()
    september = start_drill("--scenario", "september")
    assert run(folder, verify, september, keys_are_files=keys_are_files) == 2
    assert run(folder, judge, september, keys_are_files=keys_are_files) == 1
    assert not (folder / "gate.proof.json").exists()
    assert int(ET.parse(folder / "gate.xml").getroot().attrib["failures"]) > 0  # noqa: S314


def test_waiting_sees_nodes_that_come_up_late(
    start_drill: DrillStarter,
    folder: Path,
    free_ports: Any,  # noqa: ANN401 - a fixture of ours
) -> None:
    """The gate runs before any node does; the drill starts once the gate says that it waits."""
    port = free_ports()
    # The drill's order of ports: router, control, then the nodes.
    urls = [f"http://127.0.0.1:{port + offset}" for offset in (2, 3)]
    command = ["./pagewarden", "gate", "--engine", "sglang", "--wait", "60"]
    with subprocess.Popen(  # noqa: S603 - our own entry
        [*command, "--prefill", urls[0], "--decode", urls[1]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        assert "waiting up to" in said
        assert "prefill-1" in said
        start_drill("--scenario", "healthy", "--base-port", str(port))
        out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert out.startswith("verdict: pass\n")
