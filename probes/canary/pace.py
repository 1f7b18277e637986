"""Tells where one pair of a deployment takes much longer than the others for the same prompts.

A slow member answers rightly, so nothing else of a canary sees it, and a router that chooses hides
it. Only rounds that went to each pair by itself tell which one it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from common.verdicts import Verdict
from probes.canary.ranks import chance_of_sooner, least_chance
from probes.canary.rounds import Outcome, Row
from probes.judgement import Check, Kind

PACE: Final = "pace"
#: So much longer is no weather; and so unlikely by chance.
SLOW: Final = 3.0
_CHANCE: Final = 1e-3
#: Less nobody feels, and a busy machine makes as much. Unit: seconds.
_FELT_S: Final = 0.1


def judge_pace(plan: str, rows: dict[str, list[Row]]) -> Iterator[Check]:
    """Answer one check, as advice, where a plan was sent to more than one pair by itself.

    ``rows`` are those of each pair, by its name. Unit of the figures: seconds over the median of
    the same prompt at all pairs.
    """
    if len(rows) < 2:  # noqa: PLR2004 - one has nobody to be slower than
        return
    paces = {name: _paces(name, rows) for name in rows}
    slowest = max(paces, key=lambda name: median(paces[name] or [0.0]))
    mine = paces[slowest]
    others = [pace for name, found in paces.items() if name != slowest for pace in found]
    if not mine or not others or least_chance(len(others), len(mine)) > _CHANCE:
        yield _check(plan, slowest, Verdict.NOT_EXERCISED, "too few answers to compare the pairs")
        return
    ratio = median(mine) / max(median(others), 1e-9)
    chance = chance_of_sooner(others, mine)
    figures = {"ratio": round(ratio, 2), "answers": len(mine), "others": len(others)}
    if ratio >= SLOW and chance < _CHANCE and _lag_s(slowest, rows) >= _FELT_S:
        reason = (
            f"{slowest} takes {ratio:.1f} times as long as the others for the same prompts: its "
            "answers are right, but it holds up whoever is sent to it; look at its transfers and "
            "its load"
        )
        yield _check(plan, slowest, Verdict.FAIL, reason, **figures)
        return
    reason = f"no pair takes {SLOW:g} times as long as the others for the same prompts"
    yield _check(plan, slowest, Verdict.PASS, reason, **figures)


def _paces(name: str, rows: dict[str, list[Row]]) -> list[float]:
    """Answer how long a pair took, each time over what the same prompt took at all pairs."""
    usual: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for found in rows.values():
        for row in _timed(found):
            usual[_key(row)].append(row.seconds)
    return [row.seconds / median(usual[_key(row)]) for row in _timed(rows[name])]


def _lag_s(name: str, rows: dict[str, list[Row]]) -> float:
    """Answer how much longer a pair takes in the middle. Unit: seconds."""
    mine = [row.seconds for row in _timed(rows[name])]
    others = [row.seconds for one, found in rows.items() if one != name for row in _timed(found)]
    return median(mine) - median(others)


def _timed(rows: Sequence[Row]) -> list[Row]:
    """Answer the rows that tell something: answered ones that were not under way with others."""
    return [row for row in rows if row.outcome is Outcome.ANSWERED and row.seconds and not row.wave]


def _key(row: Row) -> tuple[str, int, int]:
    return row.purpose, row.length, row.max_new_tokens


def _check(plan: str, target: str, verdict: Verdict, reason: str, **figures: float) -> Check:
    return Check(
        check=f"{plan}.{PACE}",
        target=target,
        verdict=verdict,
        kind=Kind.TIMING,
        reason=reason,
        required=False,
        figures=dict(figures),
    )
