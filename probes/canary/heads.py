"""The head of a round as an audit keeps it: what it was, what it cost, what was not sent."""

from __future__ import annotations

from collections import Counter
from typing import TypedDict

from fleet.reading import Role
from probes.canary.departure import ABORTED, FINISHED, Episode
from probes.canary.results import CostDocument, RoundResult, cost_document

_ROLES = (Role.PREFILL, Role.DECODE, Role.UNIFIED)


class UnsentDocument(TypedDict):
    """So many requests that were not sent for one reason."""

    reason: str
    count: int


class DepartureDocument(TypedDict):
    """One request with the counters around it, in short; ``ends`` and ``held`` by role.

    ``held`` are requests still in hand at the last look, ``looked_s`` after the client left.
    """

    stay: str
    target: str
    length: int
    is_answered: bool
    seconds: float
    looked_s: float
    ends: dict[str, dict[str, int | None]]
    held: dict[str, int | None]


class HeadDocument(TypedDict):
    """A round without its rows; those say the number of their round."""

    number: int
    plan: str
    way: str
    target: str
    verdict: str
    same_key: bool
    cost: CostDocument
    unsent: list[UnsentDocument]
    departures: list[DepartureDocument]


def round_head(number: int, result: RoundResult) -> HeadDocument:
    """Answer what an audit keeps of a round beside its rows and checks."""
    unsent = Counter(row.reason for row in result.rows if not row.is_sent)
    return {
        "number": number,
        "plan": result.plan,
        "way": str(result.way),
        "target": result.target,
        "verdict": str(result.judgement().verdict),
        "same_key": result.is_same_key,
        "cost": cost_document([result]),
        "unsent": [{"reason": reason, "count": count} for reason, count in unsent.items()],
        "departures": [_departure(one) for one in result.episodes],
    }


def _departure(episode: Episode) -> DepartureDocument:
    last = episode.last
    roles = [role for role in _ROLES if last.of_role(role)]
    return {
        "stay": str(episode.stay),
        "target": episode.target,
        "length": episode.length,
        "is_answered": episode.is_answered,
        "seconds": round(episode.seconds, 3),
        "looked_s": round(last.until_s, 3),
        "ends": {
            str(role): {name: episode.rise(role, name, last) for name in (ABORTED, FINISHED)}
            for role in roles
        },
        "held": {str(role): last.total(role, lambda one: one.in_hand) for role in roles},
    }
