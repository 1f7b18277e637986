"""What the rows of a round show: leaks, unread prompts, served refusals, missing answers."""

from __future__ import annotations

from collections.abc import Iterable

from common.verdicts import Verdict, worst
from probes.canary.contract import Evidence
from probes.canary.controls import (
    ECHO_TOKENS,
    Doubt,
    asks_of,
    came_to,
    controls_of,
    count_of,
    doubt_asks,
    doubt_control,
    doubt_counts,
    doubt_echo,
    doubt_refusals,
    doubt_unsent,
    inconclusive,
    name_of,
    unexercised,
)
from probes.canary.oracle_foreign import FOREIGN_MARKER
from probes.canary.rounds import Cause, Duty, Echo, Outcome, Row
from probes.judgement import Check, Figure, Kind

OWN_NONCE = "own_nonce"
REFUSAL = "refusal"
ANSWERED = "answered"

KINDS = {
    FOREIGN_MARKER: Kind.LEAK,
    OWN_NONCE: Kind.CORRUPTION,
    REFUSAL: Kind.OVER_LIMIT_SERVED,
    ANSWERED: Kind.AVAILABILITY,
}

#: A refusal needs no forward pass; the running engine took 10 to 50 ms. Unit: seconds.
REFUSAL_BOUND_S = 10.0


def judge_own_nonce(evidence: Evidence) -> Check:
    """Fail where an answer shows that the prompt was not read."""
    judged = echoing(evidence)
    seen = seen_unread(evidence)
    # Where every code came back nobody needs to know whether a missing one would mean something.
    is_told = seen is None and bool(judged)
    doubts = [*(doubt_control(evidence) if is_told else doubt_echo(evidence))]
    if seen is not None and not doubts:
        return seen
    doubts += doubt_asks(evidence, Duty.ANSWER)
    doubts += doubt_counts(evidence)
    if not judged:
        doubts.append(unexercised("no answer was long enough to repeat a code in"))
    reason = f"the code of its own prompt came back in {count_of(len(judged), 'answer')}"
    return _settle(evidence, OWN_NONCE, doubts, reason)


def echoing(evidence: Evidence) -> list[Row]:
    """Answer the asks whose answers had room for their own code."""
    begins = any(row.echo_offset == 0 for row in controls_of(evidence, Duty.ANSWER))
    return [row for row in asks_of(evidence) if row.is_served and _can_echo(row, begins=begins)]


def seen_unread(evidence: Evidence) -> Check | None:
    """Answer the failure where an answer shows nothing of its own prompt, or None."""
    judged = echoing(evidence)
    missing = [row for row in judged if row.echo is Echo.MISSING]
    if not missing:
        return None
    row = missing[0]
    return _check(
        evidence,
        OWN_NONCE,
        Verdict.FAIL,
        f"{name_of(row)} was answered with status {row.status}, but nothing of its own "
        "prompt is in the answer: the prompt was not read",
        row=row,
        wrong=len(missing),
        rate=len(missing) / len(judged),
    )


def judge_refusal(evidence: Evidence) -> Check:
    """Fail where a length that must be refused was answered."""
    due = [row for row in asks_of(evidence) if row.duty is Duty.REFUSAL]
    seen = seen_served(evidence)
    if seen is not None:
        return seen
    doubts = [*doubt_refusals(evidence), *doubt_asks(evidence, Duty.REFUSAL)]
    doubts += [
        inconclusive(f"{name_of(row)} was refused for its new tokens, not for its length")
        for row in due
        if row.cause is Cause.TOKEN_COUNT
    ]
    if not due:
        doubts.append(unexercised("no length that must be refused was asked"))
    reason = f"refused with an error over the limit: {count_of(len(due), 'prompt')}"
    return _settle(evidence, REFUSAL, doubts, reason)


def seen_served(evidence: Evidence) -> Check | None:
    """Answer the failure where a length that must be refused was answered, or None."""
    due = [row for row in asks_of(evidence) if row.duty is Duty.REFUSAL]
    row = next((row for row in due if row.is_served), None)
    if row is None:
        return None
    return _check(
        evidence,
        REFUSAL,
        Verdict.FAIL,
        f"{name_of(row)} must be refused from {evidence.scene.all_refuse:,} on and was "
        f"answered with status {row.status} (prompt_tokens {row.prompt_tokens})",
        row=row,
    )


def seen_unavailable(evidence: Evidence) -> Check | None:
    """Answer the failure where an engine did not do its work in time, or None."""
    failed = [row for row in asks_of(evidence) if _unavailable(row)]
    if not failed:
        return None
    row = failed[0]
    return _check(
        evidence,
        ANSWERED,
        Verdict.FAIL,
        f"{name_of(row)}: {_unavailable(row)}",
        row=row,
        failed=len(failed),
    )


def judge_answered(evidence: Evidence) -> Check:
    """Fail where a length within the limit got no answer, or a refusal did not come in time."""
    doubts = [*doubt_control(evidence)]
    late = seen_unavailable(evidence)
    if late is not None and not doubts:
        return late
    doubts += doubt_unsent(asks_of(evidence))
    within = [row for row in asks_of(evidence) if row.duty is Duty.ANSWER]
    if not within:
        doubts.append(unexercised("no length within the limit was asked"))
    reason = (
        f"answered within the limit: {count_of(len(within), 'prompt')}; every refusal came within "
        f"{REFUSAL_BOUND_S:g} s"
    )
    return _settle(evidence, ANSWERED, doubts, reason)


def not_exercised(*, plan: str, oracles: Iterable[str], target: str, reason: str) -> list[Check]:
    """Answer the checks of a round of which nothing was sent."""
    return [
        Check(
            check=f"{plan}.{oracle}",
            target=target,
            verdict=Verdict.NOT_EXERCISED,
            kind=KINDS[oracle],
            reason=reason,
        )
        for oracle in oracles
    ]


def _unavailable(row: Row) -> str:
    """Answer in what way the engine did not do its work here, or nothing where it did."""
    if not row.is_sent or row.outcome is Outcome.UNAUTHORISED:
        return ""
    if row.is_silent:
        return came_to(row)
    if row.duty is Duty.ANSWER and row.outcome is not Outcome.ANSWERED:
        return f"within the limit, and it {came_to(row)}"
    if row.outcome is Outcome.REFUSED and row.seconds > REFUSAL_BOUND_S:
        return f"its refusal took {row.seconds:g} s; {REFUSAL_BOUND_S:g} s are the bound"
    return ""


def _can_echo(row: Row, *, begins: bool) -> bool:
    """Answer whether this answer had room for the code.

    A shorter one is judged by its beginning, and only where the model begins with the code.
    """
    return row.max_new_tokens >= ECHO_TOKENS or (begins and row.echo is not Echo.NOT_LOOKED_FOR)


def _settle(evidence: Evidence, oracle: str, doubts: list[Doubt], reason: str) -> Check:
    if not doubts:
        return _check(evidence, oracle, Verdict.PASS, reason)
    reasons = dict.fromkeys(doubt.reason for doubt in doubts)
    verdict = worst(doubt.verdict for doubt in doubts)
    return _check(evidence, oracle, verdict, "; ".join(reasons))


def _check(
    evidence: Evidence,
    oracle: str,
    verdict: Verdict,
    reason: str,
    *,
    row: Row | None = None,
    **more: Figure,
) -> Check:
    asked = [one.length for one in asks_of(evidence) if one.is_sent]
    figures: dict[str, Figure] = {
        "length": max(asked, default=None) if row is None else row.length,
        "first_refused": evidence.scene.first_refused,
    }
    if row is not None:
        figures |= {"status": row.status, "prompt_tokens": row.prompt_tokens}
    return Check(
        check=f"{evidence.plan}.{oracle}",
        target=evidence.scene.target,
        verdict=verdict,
        kind=KINDS[oracle],
        reason=reason,
        figures=figures | more,
    )
