"""The benchmark measures what it says: tiny numbers, no word about time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench._nodes import addresses
from bench._table import Row, table_of
from config.verbs.bench import main, split_words

ROOT = Path(__file__).resolve().parents[2]


def row(ratio: float | None, goal: float | None) -> Row:
    return Row(what="w", ratio=ratio, goal=goal, how="h")


def test_only_a_measured_ratio_within_its_goal_is_met() -> None:
    assert row(2.5, 2.5).verdict == "met"
    assert row(2.51, 2.5).verdict == "MISSED"
    assert row(None, 2.5).verdict == "not measured"
    assert row(9.0, None).verdict == "no goal"
    assert table_of([row(2.514, 2.5)]).splitlines()[-1] == "| w | 2.51 | <= 2.5 | MISSED | h |"


def test_every_node_has_an_address_of_its_own_on_loopback() -> None:
    places = addresses(5000)
    assert len(set(places)) == 5000
    assert all(place.startswith("127.") for place in places)
    assert all(0 <= int(part) <= 255 for place in places for part in place.split("."))


def test_names_come_before_options() -> None:
    assert split_words(["fleet_sweep", "--nodes", "8"]) == (["fleet_sweep"], ["--nodes", "8"])
    assert split_words(["--nodes", "8"]) == ([], ["--nodes", "8"])


def test_an_unknown_benchmark_is_named() -> None:
    with pytest.raises(Exception, match="no benchmark 'ghost'"):
        main(["ghost"])


@pytest.mark.timeout(300)
def test_the_whole_benchmark_runs_on_tiny_numbers() -> None:
    words = ("--nodes", "8", "--small", "4", "--rounds", "1", "--no-install")
    done = subprocess.run(  # noqa: S603 - our own module
        (sys.executable, "-m", "bench.fleet_sweep", *words),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 6
    assert "two GETs" in rows[0]
    assert "all five GETs" in rows[1]
    assert "black holes (1)" in rows[4]
