"""Oracle: the answers do not get worse the more requests an engine has served.

Source: case C10 of the public reports: 95 %, 76 %, 50 % of answers right, and never a marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import count_of, inconclusive, unexercised
from probes.canary.oracle_reference import comparisons_of
from probes.canary.rounds import Echo, Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

TREND = "trend"
KIND = Kind.CORRUPTION
_WINDOWS = 3
#: Fewer answers in a window tell nothing.
LEAST = 8
#: One round in so many cries wolf where nothing changes.
_CHANCE = 1e-4
#: What is less likely than this by chance is no pass either.
_UNSURE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """So many answers in a row, and how many of them were right."""

    answers: int
    right: int

    @property
    def share(self) -> float:
        """Answer the share that was right."""
        return self.right / self.answers if self.answers else 0.0


def judge_trend(evidence: Evidence, *, told: Sequence[Window] = ()) -> Check:
    """Fail where the last third of a round is right less often than the first, beyond chance.

    ``told`` are windows that somebody counted elsewhere, in their order.
    """
    windows = list(told) or windows_of(evidence)
    if len(windows) < 2 or min(one.answers for one in windows) < LEAST:  # noqa: PLR2004
        doubts = [unexercised(f"fewer than {LEAST} answers in each window: no trend can be told")]
        return settled(evidence, TREND, doubts, "", kind=KIND)
    first, last = windows[0], windows[-1]
    shares = ", ".join(f"{one.share:.0%} of {one.answers}" for one in windows)
    chance = _chance(first, last) if last.share < first.share else 1.0
    if chance < _CHANCE:
        return check_of(
            evidence,
            TREND,
            Verdict.FAIL,
            f"answers get worse as requests go by ({shares} right): an engine that was clean at "
            "the start is not clean now",
            kind=KIND,
            first_share=round(first.share, 4),
            last_share=round(last.share, 4),
        )
    if chance < _UNSURE:
        doubts = [
            inconclusive(
                f"fewer answers are right at the end ({shares} right), and too few were asked to "
                "tell that from chance: send more rounds"
            )
        ]
        return settled(evidence, TREND, doubts, "", kind=KIND)
    reason = f"answers do not get worse over {count_of(len(windows), 'window')} ({shares} right)"
    return settled(evidence, TREND, (), reason, kind=KIND)


def windows_of(evidence: Evidence) -> list[Window]:
    """Answer the thirds of a round in their order, of all answers of which it can be told."""
    right = [_is_right(row, evidence) for row in evidence.rows if row.is_served]
    known = [one for one in right if one is not None]
    size = len(known) // _WINDOWS
    if not size:
        return []
    cuts = [known[at : at + size] for at in range(0, size * _WINDOWS, size)]
    return [Window(answers=len(cut), right=sum(cut)) for cut in cuts]


def _is_right(row: Row, evidence: Evidence) -> bool | None:
    """Answer whether an answer is what it should be; None where nobody can tell."""
    for one in comparisons_of(evidence):
        is_its = row in one.alone or row in one.again
        if is_its and one.is_repeatable and row.said_digest:
            return row.said_digest == one.alone[0].said_digest
    if row.echo is Echo.NOT_LOOKED_FOR:
        return None
    return row.echo in {Echo.WHOLE, Echo.BEGINS}


def _chance(first: Window, last: Window) -> float:
    """Answer how likely so few right ones in the last window are by chance (Fisher, one-sided)."""
    total, right = first.answers + last.answers, first.right + last.right
    least = max(0, right - first.answers)
    ways = comb(total, right)
    return sum(
        comb(last.answers, hits) * comb(first.answers, right - hits) / ways
        for hits in range(least, last.right + 1)
    )
