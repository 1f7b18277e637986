"""Oracle: what is answered over the limit depends on what was asked.

A refused prompt that goes on as a stub is continued from other requests' pages: whatever is asked,
the answer begins alike. Source: detection.md A6, seen on SGLang 0.5.19 (first token 260 each time).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import (
    Doubt,
    asks_of,
    count_of,
    doubt_unsent,
    inconclusive,
    unexercised,
)
from probes.canary.rounds import Duty, Outcome, Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

ALIKE = "answers_alike"
KIND = Kind.OVER_LIMIT_SERVED
#: So many different prompts whose answers begin alike are no chance.
ENOUGH = 3


def judge_alike(evidence: Evidence) -> Check:
    """Fail where answers over the limit all begin alike while those within it differ."""
    over = _different(row for row in evidence.rows if row.duty is not Duty.ANSWER)
    within = _different(row for row in evidence.rows if row.duty is Duty.ANSWER)
    openings = {row.opening_digest for row in over}
    differ = len({row.opening_digest for row in within}) > 1
    if len(over) >= ENOUGH and len(openings) == 1 and differ:
        return check_of(
            evidence,
            ALIKE,
            Verdict.FAIL,
            f"the answers to {count_of(len(over), 'different prompt')} over the limit all begin "
            f"alike, while those to {count_of(len(within), 'prompt')} within it differ: they were "
            "not made from what was asked",
            kind=KIND,
            row=over[0],
            answers=len(over),
        )
    doubts = [*_doubt(evidence, over, within)]
    reason = f"nothing over the limit was answered; {count_of(len(within), 'answer')} within it"
    return settled(evidence, ALIKE, doubts, reason, kind=KIND)


def _different(rows: Iterator[Row]) -> list[Row]:
    """Answer the served rows that show how they begin, one for each prompt."""
    shown = [row for row in rows if row.is_served and row.opening_digest]
    return list({row.script or row.request: row for row in reversed(shown)}.values())


def _doubt(evidence: Evidence, over: Sequence[Row], within: Sequence[Row]) -> Iterator[Doubt]:
    if len(within) < 2 or len({row.opening_digest for row in within}) < 2:  # noqa: PLR2004
        yield inconclusive(
            "answers within the limit do not differ either, so alike ones mean nothing"
        )
    due = [row for row in asks_of(evidence) if row.duty is not Duty.ANSWER]
    asked = [row for row in due if row.duty is Duty.REFUSAL and row.is_sent]
    yield from doubt_unsent(due)
    if not due:
        yield unexercised("nothing over the limit was asked")
    if over:
        yield inconclusive(
            f"{count_of(len(over), 'prompt')} over the limit were answered: too few, or not alike"
        )
    for row in asked:
        if row.outcome not in {Outcome.REFUSED, Outcome.ANSWERED, Outcome.CUT_SHORT}:
            yield inconclusive(f"a prompt of {row.length:,} tokens over the limit got no answer")
