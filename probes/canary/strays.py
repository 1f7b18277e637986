"""Positive control of a round in which clients leave: their requests were really in flight."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.reading import Role
from probes.canary.contract import Evidence
from probes.canary.controls import (
    Doubt,
    asks_of,
    came_to,
    count_of,
    doubt_unsent,
    inconclusive,
    name_of,
    unexercised,
)
from probes.canary.departure import ABORTED, FINISHED, Episode
from probes.canary.rounds import Duty, Outcome, Row


def strays_of(evidence: Evidence) -> list[Row]:
    """Answer the requests whose clients were to leave: nothing is owed to them."""
    return [row for row in asks_of(evidence) if row.duty is Duty.EITHER]


def doubt_strays(evidence: Evidence, *, speaking: int) -> Iterator[Doubt]:
    """Answer why clients that left may have left nothing behind that could harm anybody.

    In the wave ``speaking`` one leaves when its answer has begun, which may be over by then: that
    one is missed only where nobody left at all.
    """
    strays = strays_of(evidence)
    if not strays:
        yield unexercised("no client was to leave half-way")
    yield from doubt_unsent(strays)
    for row in strays:
        if row.is_served and row.wave != speaking:
            yield unexercised(
                f"{name_of(row)} was answered in {row.seconds:.2f} s, before its client left: a "
                "longer one is needed (--budget-tokens)"
            )
        elif row.is_sent and not row.is_served and row.outcome is not Outcome.LEFT:
            yield inconclusive(f"{name_of(row)} {came_to(row)}")
    if any(row.outcome is Outcome.LEFT for row in strays):
        yield from _doubt_flight(evidence)


def seen_in_flight(episode: Episode, *, answered: int) -> int | None:
    """Answer how many requests the engines tell of beside the answered ones, at least.

    An engine counts one that was given up as aborted, or as ended like any other where it noticed
    too late. None: no role shows its counters.
    """
    found = []
    for role in Role:
        ended, given_up = (episode.rise(role, name, episode.last) for name in (FINISHED, ABORTED))
        if ended is not None and given_up is not None and episode.last.of_role(role):
            found.append(max(given_up, ended - answered))
    return max(found, default=None)


def _doubt_flight(evidence: Evidence) -> Iterator[Doubt]:
    left = [row for row in evidence.rows if row.outcome is Outcome.LEFT]
    answered = sum(row.is_served for row in evidence.rows)
    seen = [seen_in_flight(one, answered=answered) for one in evidence.episodes]
    counts = [one for one in seen if one is not None]
    if not counts:
        yield inconclusive(
            "no engine's counters were read before and after, so whether what was abandoned was in "
            "flight there is not known: make /metrics readable (--enable-metrics on the engine)"
        )
    elif sum(counts) <= 0:
        yield unexercised(
            f"no engine shows any of the {count_of(len(left), 'request')} whose clients left: they "
            "were dropped before they got there"
        )
