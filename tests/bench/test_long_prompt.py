"""The benchmark of long prompts measures what it says: tiny numbers, no word about time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench._sender import draft, token_ids

ROOT = Path(__file__).resolve().parents[2]


def test_the_prompt_is_as_long_as_said_and_in_the_body_as_it_is() -> None:
    ids = token_ids(1000)
    assert len(ids) == 1000
    assert json.loads(draft(ids).body)["input_ids"] == ids


@pytest.mark.timeout(120)
def test_the_whole_benchmark_runs_on_tiny_numbers() -> None:
    words = ("--tokens", "2000", "--rounds", "1", "--turns", "1")
    done = subprocess.run(  # noqa: S603 - our own module
        (sys.executable, "-m", "bench.long_prompt", *words),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # 1: so short a prompt costs little beside its connection, and goals may be missed.
    assert done.returncode in {0, 1}, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 4
    assert "2,000 tokens written already, against raw aiohttp" in rows[0]
    assert "written and sent" in rows[2]
    assert "memory added" in rows[3]
    assert not any("not measured" in row for row in rows)


def test_a_way_that_fails_is_no_measurement() -> None:
    wish = {"way": "built", "url": "http://127.0.0.1:9", "tokens": 10, "rounds": 1, "is_warm": True}
    done = subprocess.run(
        (sys.executable, "-m", "bench._sender"),
        input=json.dumps(wish),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
