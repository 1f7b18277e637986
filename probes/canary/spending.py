"""What a round did cost, and costs in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from probes.canary.rounds import Cost, Outcome, Row


def tell_cost(cost: Cost) -> str:
    """Answer a cost in words."""
    return f"{cost.tokens:,} tokens in {cost.requests} requests, {cost.seconds:g} s"


def spent_on(rows: Sequence[Row]) -> Cost:
    """Answer what the rows that were sent did cost.

    Answered tokens count as the engine counted them, as asked for where it did not.
    """
    sent = [row for row in rows if row.is_sent]
    return Cost(
        tokens=sum(row.length + _new_tokens(row) for row in sent),
        requests=len(sent),
        seconds=round(sum(_seconds_of(sent)), 3),
    )


def _seconds_of(rows: Sequence[Row]) -> Iterator[float]:
    """Answer how long each step took: those of one wave ran side by side."""
    numbered = enumerate(rows)
    for _, step in groupby(numbered, key=lambda one: (one[1].wave, 0 if one[1].wave else one[0])):
        yield max(row.seconds for _, row in step)


def _new_tokens(row: Row) -> int:
    if row.completion_tokens is not None:
        return row.completion_tokens
    return row.max_new_tokens if row.outcome is not Outcome.REFUSED else 0
