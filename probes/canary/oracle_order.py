"""Oracle: no prompt is served before another because somebody else's prompt is in the cache.

A scheduler that prefers long cached prefixes tells by the order of answers what others have sent,
even where no time can be measured. Source: PROMPTPEEK (NDSS 2025), detection.md A1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb
from typing import Final

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import Doubt, count_of, inconclusive, unexercised
from probes.canary.oracle_salt import arms_of
from probes.canary.rounds import Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

ORDER = "order"
KIND = Kind.TIMING
#: One round in so many tells of an order where there is none (sign test, one-sided).
FALSE_ALARM: Final = 1e-3
#: Fewer pairs than this cannot come below that even where all of them agree: 2 ** -10.
LEAST_PAIRS: Final = 10
#: From here on chance is no good explanation, and it is not excluded either.
_DOUBTFUL: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """In how many pairs the known prompt's first token came first; pairs that tie are left out."""

    first: int
    pairs: int

    @property
    def chance(self) -> float:
        """Answer how likely so many firsts are where nothing orders them."""
        ways = sum(comb(self.pairs, hits) for hits in range(self.first, self.pairs + 1))
        return float(ways / 2**self.pairs)

    def describe(self) -> str:
        """Answer the tally in words."""
        return f"{self.first} of {self.pairs}"


def judge_order(evidence: Evidence) -> Check:
    """Fail where a prompt that another tenant sent is served before one that is new to everybody.

    Only prompts of one tenant, sent together, are compared.
    """
    foreign, own = _tally(evidence, "other"), _tally(evidence, "same")
    doubts = [*_doubt(foreign, own)]
    if not doubts and foreign.chance <= FALSE_ALARM:
        return check_of(
            evidence,
            ORDER,
            Verdict.FAIL,
            f"in {foreign.describe()} pairs a prompt that only another tenant had sent was served "
            "before one that nobody had sent: the order of answers tells what others send (chance "
            f"of a false alarm: {FALSE_ALARM:g})",
            kind=KIND,
            foreign_first=foreign.first,
            own_first=own.first,
            pairs=foreign.pairs,
        )
    if not doubts and foreign.chance <= _DOUBTFUL:
        doubts.append(
            inconclusive(f"another tenant's prompt came first in {foreign.describe()}: send more")
        )
    reason = (
        f"another tenant's prompt came first in {foreign.describe()} pairs, one's own in "
        f"{own.describe()}"
    )
    return settled(
        evidence,
        ORDER,
        doubts,
        reason,
        kind=KIND,
        foreign_first=foreign.first,
        own_first=own.first,
        pairs=foreign.pairs,
    )


def _tally(evidence: Evidence, arm: str) -> Tally:
    arms = arms_of(evidence)
    known: Sequence[Row] = {"other": arms.other, "same": arms.same}[arm]
    pairs = [*_pairs(known, arms.new)]
    told = [(one, new) for one, new in pairs if one != new]
    return Tally(first=sum(one < new for one, new in told), pairs=len(told))


def _pairs(known: Sequence[Row], new: Sequence[Row]) -> Iterator[tuple[float, float]]:
    """Answer the times of each known prompt and of the new one that was under way with it."""
    for row in known:
        beside = [one for one in new if row.wave and one.wave == row.wave]
        # A wave that was sent again has its number again.
        mine = [one for one in beside if one.tenant == row.tenant]
        other = min(mine, key=lambda one: abs(one.position - row.position), default=None)
        if other is None or row.first_token_s is None or other.first_token_s is None:
            continue
        yield row.first_token_s, other.first_token_s


def _doubt(foreign: Tally, own: Tally) -> Iterator[Doubt]:
    for name, tally in (("another tenant's", foreign), ("one's own", own)):
        if tally.pairs < LEAST_PAIRS:
            yield unexercised(
                f"{count_of(tally.pairs, 'pair')} of {name} prompt and a new one, each with its "
                f"first token's time; {LEAST_PAIRS} are the least that tell something"
            )
            return
    if own.chance > FALSE_ALARM:
        yield unexercised(
            f"not even one's own cached prompt is served first ({own.describe()} pairs): no order "
            "of answers is felt"
        )
