"""A pair that answers rightly and slowly is told, and one that is only unlucky is not."""

from __future__ import annotations

import random

import pytest

from common.verdicts import Verdict
from probes.canary.pace import judge_pace
from probes.canary.rounds import Duty, Outcome, Part, Row
from probes.judgement import Kind


def rows(seconds: float, *, count: int = 8, seed: int = 1) -> list[Row]:
    chance = random.Random(seed)  # noqa: S311 - weather, not a secret
    return [
        Row(
            position=number,
            part=Part.ASK,
            purpose=f"ask {number}",
            tenant="tenant-b",
            request=f"{number:06x}",
            length=100 * (number + 1),
            max_new_tokens=8,
            duty=Duty.ANSWER,
            outcome=Outcome.ANSWERED,
            seconds=seconds * (number + 1) * chance.uniform(0.8, 1.2),
        )
        for number in range(count)
    ]


def test_a_slow_pair_is_named() -> None:
    (check,) = judge_pace("reference", {"p1/d1": rows(0.05), "p2/d1": rows(0.5, seed=2)})
    assert (check.verdict, check.kind, check.target) == (Verdict.FAIL, Kind.TIMING, "p2/d1")
    assert check.check == "reference.pace"
    assert not check.required
    assert check.figures["ratio"] == pytest.approx(10, rel=0.4)


@pytest.mark.parametrize("seed", range(20))
def test_weather_is_no_slow_pair(seed: int) -> None:
    pairs = {"p1/d1": rows(0.05, seed=seed), "p2/d1": rows(0.06, seed=seed + 100)}
    (check,) = judge_pace("reference", pairs)
    assert check.verdict is Verdict.PASS


def test_what_nobody_feels_is_no_finding() -> None:
    (check,) = judge_pace("reference", {"p1/d1": rows(0.001), "p2/d1": rows(0.01, seed=2)})
    assert check.verdict is Verdict.PASS


def test_too_few_answers_tell_nothing_and_one_pair_has_no_peer() -> None:
    few = {"p1/d1": rows(0.05, count=2), "p2/d1": rows(0.5, count=2, seed=2)}
    (check,) = judge_pace("reference", few)
    assert check.verdict is Verdict.NOT_EXERCISED
    assert list(judge_pace("reference", {"p1/d1": rows(0.05)})) == []
