"""The benchmark of the search measures what it says: tiny numbers, no word about time."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.marker_search import TEXTS, live
from probes.marking.code import MarkerKey
from probes.marking.evidence import Grade
from probes.marking.search import MarkerIndex

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_has_its_size_and_none_of_our_markers(name: str) -> None:
    text = TEXTS[name](random.Random(3), 5_000)  # noqa: S311 - it makes no secret
    assert len(text) == 5_000
    index = MarkerIndex(MarkerKey(b"a secret of the benchmark"), live(100))
    assert index.find(text).grade is Grade.NOTHING


def test_markers_are_distinct() -> None:
    assert len(set(live(2_345))) == 2_345


@pytest.mark.timeout(300)
def test_the_whole_benchmark_runs_on_tiny_numbers() -> None:
    words = ("--markers", "200", "--few", "20", "--size", "20000", "--rounds", "1")
    done = subprocess.run(  # noqa: S603 - our own module
        (sys.executable, "-m", "bench.marker_search", *words),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    # Two texts, two rows each, for every sieve that runs here.
    assert len(rows) in {4, 8}
    assert "answers" in rows[0]
    assert "200 markers against 20" in rows[1]
