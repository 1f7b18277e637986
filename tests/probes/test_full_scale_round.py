"""The boundary round with the incident's figures: the fault is found, and in what time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from probes.verbs.canary import main
from tests.deployments import DrillStarter

AIM_S = 600
FIRST_REFUSED = 681_274
ACCEPT = ("--accept-exposure", "rehearsal on an idle cluster", "--as", "Ada")
GRANT = ("--budget-tokens", "20000000")


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "code"), [("september", 1), ("healthy", 0)])
def test_a_full_scale_round_finds_the_fault_and_passes_without_it(
    start_drill: DrillStarter,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    scenario: str,
    code: int,
) -> None:
    drill = start_drill("--full-scale", "--scenario", scenario)
    given = ["--engine", "sglang", "--target", drill.router, "--model", drill.model]
    for letter, tenant in zip("ab", drill.tenants, strict=True):
        (tmp_path / letter).write_text(tenant["api_key"] + "\n")
        given += [f"--tenant-{letter}-key-file", str(tmp_path / letter)]
    started = time.monotonic()
    assert main([*given, *GRANT, *ACCEPT, "--json"]) == code
    took_s = time.monotonic() - started
    said = capsys.readouterr().out
    with capsys.disabled():
        print(f"\nboundary round at full scale, {scenario}: {took_s:.1f} s")  # noqa: T201
    assert took_s < AIM_S
    if scenario == "september":
        (marker,) = [
            one for one in json.loads(said)["checks"] if one["check"] == "boundary.foreign_marker"
        ]
        assert marker["figures"]["length"] == FIRST_REFUSED
        assert marker["figures"]["tenant"] == "tenant-a"
