"""A model that does not always repeat its code accuses nobody; seen on real SmolLM2-135M."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from common.verdicts import Verdict
from probes.canary.oracles import judge_own_nonce
from probes.canary.rounds import Duty, Echo, Part, Row
from tests.probes.made_rows import evidence, row

LONG, SHORT = 4_000, 256


def rows_with(*, short: Echo, fill: Echo, ask: Echo) -> list[Row]:
    def made(position: int, part: Part, length: int, echo: Echo) -> Row:
        return row(
            position,
            part=part,
            length=length,
            prompt_tokens=length,
            max_new_tokens=64,
            duty=Duty.ANSWER,
            echo=echo,
        )

    return [
        made(0, Part.CONTROL, SHORT, short),
        made(1, Part.FILL, LONG, fill),
        made(2, Part.ASK, LONG, ask),
    ]


@pytest.mark.parametrize(
    ("short", "fill", "ask", "verdict"),
    [
        (Echo.WHOLE, Echo.WHOLE, Echo.WHOLE, Verdict.PASS),
        (Echo.WHOLE, Echo.WHOLE, Echo.MISSING, Verdict.FAIL),
        # No long prompt brought a code back, before anything could have gone wrong either.
        (Echo.WHOLE, Echo.MISSING, Echo.MISSING, Verdict.INCONCLUSIVE),
        (Echo.MISSING, Echo.WHOLE, Echo.MISSING, Verdict.INCONCLUSIVE),
        # The code is there, so it does not matter whether a missing one would tell something.
        (Echo.MISSING, Echo.WHOLE, Echo.WHOLE, Verdict.PASS),
        (Echo.MISSING, Echo.MISSING, Echo.WHOLE, Verdict.PASS),
    ],
)
def test_a_missing_code_counts_where_one_as_far_away_came_back(
    short: Echo, fill: Echo, ask: Echo, verdict: Verdict
) -> None:
    rows = rows_with(short=short, fill=fill, ask=ask)
    assert judge_own_nonce(evidence("boundary", rows)).verdict is verdict


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: replace(one, prompt_tokens=one.length - 1),
        lambda one: replace(one, echo=Echo.NOT_LOOKED_FOR, max_new_tokens=1),
    ],
)
def test_a_code_that_came_back_needs_a_prompt_that_was_read(spoil: Callable[[Row], Row]) -> None:
    rows = rows_with(short=Echo.WHOLE, fill=Echo.WHOLE, ask=Echo.WHOLE)
    spoiled = [*rows[:2], spoil(rows[2])]
    assert judge_own_nonce(evidence("boundary", spoiled)).verdict is not Verdict.PASS
