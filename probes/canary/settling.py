"""What of a round's checks still stands once the nodes were read again."""

from __future__ import annotations

from dataclasses import replace

from common.verdicts import Verdict
from probes.canary.contract import RoundOrder
from probes.canary.leave import reached_by
from probes.canary.rounds import Way
from probes.canary.survey import Drift, Survey, compare_surveys, unreached
from probes.judgement import Check, Kind


def settle(
    order: RoundOrder,
    checks: tuple[Check, ...],
    before: Survey,
    after: Survey,
    *,
    is_of_router: bool = False,
) -> tuple[Check, ...]:
    """Answer the checks as the readings before and after allow them to stand.

    What is told of a router alone does not depend on which of its nodes it chose.
    """
    drift = compare_surveys(before, after)
    missed = () if is_of_router else _missed(order, before, after)
    return tuple(_doubted(check, drift, missed) for check in checks)


def _missed(order: RoundOrder, before: Survey, after: Survey) -> tuple[str, ...]:
    """Answer the nodes that the router may have left out; with one of each role it cannot."""
    reached = reached_by(order, before)
    roles = [one.role for one in reached]
    if order.way is not Way.ROUTER or len(roles) == len(set(roles)):
        return ()
    return unreached(before, after, tuple(one.node for one in reached))


def _doubted(check: Check, drift: Drift, missed: tuple[str, ...]) -> Check:
    """Answer a check under what moved meanwhile.

    A foreign marker in an answer stays what it is, whoever restarted. All else was measured against
    limits that may be others now. Where it is only unknown whether something moved, what was seen
    to fail still failed.
    """
    is_leak = check.kind is Kind.LEAK and check.verdict is Verdict.FAIL
    if drift.changes and not is_leak:
        return _demote(check, drift.text)
    if check.verdict is not Verdict.PASS:
        return check
    if drift.gaps:
        return _demote(check, drift.text)
    if missed:
        names = ", ".join(missed)
        return _demote(
            check,
            f"the router chose, and {names} shows no request of this round: probe each pair with "
            "--via pair",
        )
    return check


def _demote(check: Check, reason: str) -> Check:
    reason = f"{reason}; before that: {check.verdict}, {check.reason}"
    return replace(check, verdict=Verdict.INCONCLUSIVE, reason=reason)
