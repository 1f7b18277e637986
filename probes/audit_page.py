"""Read model of the audit page: checks in order of weight, rounds under their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from common.verdicts import WORST_FIRST, Verdict
from probes.canary.contract import PLANS
from probes.canary.controls import count_of
from probes.canary.exclusion import excluded_rate, excluded_rate_999
from probes.models import Audit, AuditCheck
from probes.round_charts import Drawing, drawing_of
from probes.round_lines import RoundLines, round_lines, row_lines

#: What rounds are called that ran before an audit kept which plan they were of.
_UNNAMED = "canary"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRound:
    """A round, and what it is drawn as where people would rather look than read."""

    lines: RoundLines
    drawing: Drawing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRounds:
    """The rounds of one plan: what they came to together, and what a pass of it excludes."""

    key: str
    title: str
    verdict: str
    excludes: str
    rounds: tuple[DrawnRound, ...]

    @property
    def estimate(self) -> int | None:
        """Answer what its rounds were to cost at most; None while that is not kept."""
        return _summed(self, "estimated_tokens")

    @property
    def spent(self) -> int | None:
        """Answer what its rounds did cost. Unit: tokens."""
        return _summed(self, "spent_tokens")

    @property
    def seconds(self) -> float:
        """Answer how long its requests took."""
        heads = [one.lines.head.get("cost") or {} for one in self.rounds]
        return sum(float(cost.get("seconds") or 0.0) for cost in heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """All that the audit page shows."""

    audit: Audit
    checks: tuple[AuditCheck, ...]
    plans: tuple[PlanRounds, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Answer how many requests are done."""
        return int(self.audit.progress.get("done") or 0)

    @property
    def total(self) -> int:
        """Answer how many there are in all; 0 while that is not known."""
        return int(self.audit.progress.get("total") or 0)

    @property
    def label(self) -> str:
        """Answer what is under way."""
        return str(self.audit.progress.get("label") or self.audit.state)


def audit_page(audit: Audit) -> AuditPage:
    """Answer all that the page of one audit shows, in three queries at most."""
    checks = sorted(audit.checks.all(), key=_weight)
    rounds = round_lines(audit, row_lines(list(audit.rows.defer("sealed_answer"))))
    return AuditPage(
        audit=audit,
        checks=tuple(checks),
        plans=tuple(
            _plan(key, tuple(group), checks) for key, group in groupby(rounds, key=_plan_of)
        ),
        counts={
            str(verdict): sum(check.verdict == verdict for check in checks)
            for verdict in WORST_FIRST
            if any(check.verdict == verdict for check in checks)
        },
    )


def _weight(check: AuditCheck) -> tuple[bool, int, int]:
    """Answer what comes first: required ones, the worst of them, then as they were judged."""
    return (not check.required, WORST_FIRST.index(Verdict(check.verdict)), check.pk)


def _plan_of(one: RoundLines) -> str:
    return str(one.head.get("plan") or _UNNAMED)


def _plan(key: str, rounds: tuple[RoundLines, ...], checks: Sequence[AuditCheck]) -> PlanRounds:
    mine = [one for one in checks if one.required and one.check_name.split(".")[0] == key]
    verdicts = [Verdict(check.verdict) for check in mine]
    return PlanRounds(
        key=key,
        title=PLANS.get(key).title if key in PLANS else "",
        verdict=str(min(verdicts, key=WORST_FIRST.index)) if verdicts else "",
        excludes=_excludes(mine),
        rounds=tuple(DrawnRound(lines=one, drawing=_drawing(key, one)) for one in rounds),
    )


def _excludes(required: Sequence[AuditCheck]) -> str:
    """Answer which rates a pass of all its required checks excludes; empty where one did not."""
    counts = [check.figures.get("rounds") for check in required if check.verdict == Verdict.PASS]
    known = [count for count in counts if isinstance(count, int) and count > 0]
    if not required or len(known) < len(required):
        return ""
    rounds = min(known)
    likely, surely = excluded_rate(rounds), excluded_rate_999(rounds)
    shown = count_of(rounds, "clean round")
    if likely >= 1.0:
        return f"{shown}, which cannot exclude any rate at 95 % yet"
    at_999 = f"above {surely:.2g} at 99.9 %" if surely < 1.0 else "none yet at 99.9 %"
    return (
        f"{shown} exclude that it happens in a share of rounds above {likely:.2g} at 95 %, {at_999}"
    )


def _drawing(key: str, one: RoundLines) -> Drawing | None:
    lines = sorted((*one.asked, *one.fillers), key=lambda line: line.row.position)
    return drawing_of(key, [line.document for line in lines])


def _summed(plan: PlanRounds, name: str) -> int | None:
    costs: list[Mapping[str, Any]] = [one.lines.head.get("cost") or {} for one in plan.rounds]
    known = [int(cost[name]) for cost in costs if name in cost]
    return sum(known) if known else None
