"""Judges a round that somebody else made: what its rows can show, and nothing that they cannot.

An oracle whose input nobody kept is skipped with the reason. What is there is judged by the rules
of a live round, with the controls that such a round can have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import (
    ECHO_TOKENS,
    Doubt,
    asks_of,
    came_to,
    count_of,
    inconclusive,
    name_of,
    unexercised,
)
from probes.canary.oracle_alike import ALIKE, ENOUGH, judge_alike
from probes.canary.oracle_counts import COUNTS, judge_counts
from probes.canary.oracle_coverage import COVERAGE, judge_coverage
from probes.canary.oracle_foreign import (
    FOREIGN_MARKER,
    doubt_pieces,
    seen_foreign,
)
from probes.canary.oracle_gateway import SHARED_ANSWER, judge_shared_answer
from probes.canary.oracle_reference import REFERENCE, judge_reference
from probes.canary.oracle_salt import (
    FOREIGN_HIT,
    FOREIGN_SPEED,
    arms_of,
    judge_foreign_hit,
    judge_foreign_speed,
)
from probes.canary.oracle_trend import TREND, Window, judge_trend
from probes.canary.oracles import (
    ANSWERED,
    KINDS,
    OWN_NONCE,
    REFUSAL,
    seen_served,
    seen_unavailable,
    seen_unread,
)
from probes.canary.rounds import Duty, Echo, Outcome, Part, Row
from probes.canary.saved_fields import LARGEST
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind, Skipped

PLAN = "observed"
REQUEST_IDS = "request_ids"
_TWICE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The evidence of a round that was made elsewhere, and what its maker counted and planted.

    ``planters`` are the tenants in whose prompts somebody says that a code was.
    """

    evidence: Evidence
    planters: frozenset[str] = frozenset()
    windows: tuple[Window, ...] = ()


def judge_observed(observed: Observed) -> tuple[Check | Skipped, ...]:
    """Answer one check for each oracle that has something to judge, a skip for each other."""
    evidence = observed.evidence
    rules: dict[str, Callable[[], Check | None]] = {
        FOREIGN_MARKER: lambda: _foreign(observed),
        OWN_NONCE: lambda: _own_nonce(evidence),
        REFUSAL: lambda: _refusal(evidence),
        ANSWERED: lambda: _answered(evidence),
        COUNTS: lambda: _counts(evidence),
        ALIKE: lambda: _alike(evidence),
        REFERENCE: lambda: judge_reference(evidence) if _has_repeats(evidence) else None,
        FOREIGN_HIT: lambda: _hit(evidence),
        FOREIGN_SPEED: lambda: _speed(evidence),
        SHARED_ANSWER: lambda: _shared(evidence),
        TREND: lambda: judge_trend(evidence, told=observed.windows) if observed.windows else None,
        COVERAGE: lambda: _coverage(evidence),
        REQUEST_IDS: lambda: _request_ids(evidence),
    }
    return tuple(_told(evidence, oracle, rule()) for oracle, rule in rules.items())


def _told(evidence: Evidence, oracle: str, check: Check | None) -> Check | Skipped:
    if check is not None:
        is_known = evidence.scene.first_refused < LARGEST
        figures = check.figures if is_known else {**check.figures, "first_refused": None}
        return replace(check, figures=figures)
    name = f"{evidence.plan}.{oracle}"
    return Skipped(check=name, reason="the saved round holds nothing that it could judge")


def _foreign(observed: Observed) -> Check | None:
    evidence = observed.evidence
    seen = seen_foreign(evidence)
    if seen is not None:
        return seen
    looked_at = [row for row in asks_of(evidence) if observed.planters - {row.tenant}]
    if not looked_at:
        return None
    doubts = [*doubt_pieces(evidence), *_doubt_readable(evidence), *_doubt_answers(looked_at)]
    doubts += _doubt_kept(looked_at)
    served = [row for row in looked_at if row.is_served]
    reason = f"no code of another request in {count_of(len(served), 'answer')}"
    return settled(evidence, FOREIGN_MARKER, doubts, reason, kind=KINDS[FOREIGN_MARKER])


def _own_nonce(evidence: Evidence) -> Check | None:
    judged = [row for row in asks_of(evidence) if row.echo is not Echo.NOT_LOOKED_FOR]
    if not judged:
        return None
    doubts = [*_doubt_readable(evidence)]
    # Who says what must come back also says that there was room for it.
    roomy = [replace(row, max_new_tokens=max(row.max_new_tokens, ECHO_TOKENS)) for row in judged]
    seen = seen_unread(_only(evidence, roomy))
    if seen is not None and not doubts:
        return seen
    if seen is not None:
        doubts.append(
            inconclusive(
                f"{seen.reason}; keep the raw request and answer, the worker's name and its "
                "settings, and send it again"
            )
        )
    reason = f"the code of its own prompt came back in {count_of(len(judged), 'answer')}"
    return settled(evidence, OWN_NONCE, doubts, reason, kind=KINDS[OWN_NONCE])


def _refusal(evidence: Evidence) -> Check | None:
    due = [row for row in asks_of(evidence) if row.duty is Duty.REFUSAL]
    if not due:
        return None
    seen = seen_served(evidence)
    if seen is not None:
        return seen
    doubts = [*_doubt_alive(evidence)]
    doubts += [
        inconclusive(f"{name_of(row)} {came_to(row)}")
        for row in due
        if row.outcome is not Outcome.REFUSED
    ]
    reason = f"refused with an error over the limit: {count_of(len(due), 'prompt')}"
    return settled(evidence, REFUSAL, doubts, reason, kind=KINDS[REFUSAL])


def _answered(evidence: Evidence) -> Check | None:
    asks = asks_of(evidence)
    if not asks:
        return None
    stuck = [row for row in asks if row.is_silent and _cannot_fit(row, evidence)]
    others = [row for row in asks if row not in stuck]
    # That a client left is not the engine's doing.
    stayed = [row for row in others if row.outcome is not Outcome.LEFT]
    seen = seen_unavailable(_only(evidence, stayed))
    if seen is not None:
        return seen
    doubts = [
        inconclusive(
            f"{name_of(row)} {came_to(row)}; with its {row.max_new_tokens:,} new tokens it does "
            f"not fit the {evidence.scene.pool:,} that can be served, so nothing is told of leaks: "
            "the limit is the fault"
        )
        for row in stuck
    ]
    doubts += [
        inconclusive(f"{name_of(row)} {came_to(row)}, which tells nothing of the engine")
        for row in others
        if not (row.is_served or row.outcome is Outcome.REFUSED or row.is_silent)
    ]
    reason = f"every one of {count_of(len(asks), 'prompt')} was answered or refused in time"
    return settled(evidence, ANSWERED, doubts, reason, kind=KINDS[ANSWERED])


def _counts(evidence: Evidence) -> Check | None:
    counted = [
        row
        for row in evidence.rows
        if row.is_served and row.length and row.prompt_tokens is not None
    ]
    # What is counted right shows that the engine counts as the round's maker does.
    controls = [replace(row, part=Part.CONTROL) for row in counted if row.is_read_whole]
    return judge_counts(_only(evidence, [*controls, *counted])) if counted else None


def _alike(evidence: Evidence) -> Check | None:
    over = [row for row in evidence.rows if row.duty is Duty.REFUSAL and row.is_served]
    shown = [row for row in over if row.opening_digest]
    return judge_alike(evidence) if len(shown) >= ENOUGH else None


def _has_repeats(evidence: Evidence) -> bool:
    parts: dict[str, set[str]] = defaultdict(set)
    for row in evidence.rows:
        if row.script and row.said_digest:
            parts[row.script].add(row.part)
    return any(len(found) >= _TWICE for found in parts.values())


def _hit(evidence: Evidence) -> Check | None:
    other = arms_of(evidence).other
    salted = [row for row in other if row.salt or row.cached_tokens is not None]
    return judge_foreign_hit(evidence) if salted else None


def _speed(evidence: Evidence) -> Check | None:
    other = arms_of(evidence).other
    timed = [row for row in other if row.first_token_s is not None]
    return judge_foreign_speed(evidence) if timed else None


def _shared(evidence: Evidence) -> Check | None:
    marked = [row for row in evidence.rows if row.script and (row.answer_id or row.cache_marks)]
    tenants: dict[str, set[str]] = defaultdict(set)
    for row in evidence.rows:
        if row.script and row.is_served and (row.answer_id or row.said_digest):
            tenants[row.script].add(row.tenant)
    is_shared = any(len(found) >= _TWICE for found in tenants.values())
    return judge_shared_answer(evidence) if is_shared and (marked or tenants) else None


def _coverage(evidence: Evidence) -> Check | None:
    if not (evidence.workers or any(row.worker for row in evidence.rows)):
        return None
    return judge_coverage(evidence, workers=evidence.workers)


def _request_ids(evidence: Evidence) -> Check | None:
    """Fail where two tenants sent the same id: engines mix up requests of one id."""
    tenants: dict[str, set[str]] = defaultdict(set)
    for row in evidence.rows:
        if row.request and not row.script:
            tenants[row.request].add(row.tenant)
    twice = sorted(name for name, found in tenants.items() if len(found) >= _TWICE)
    if not twice:
        return None
    return check_of(
        evidence,
        REQUEST_IDS,
        Verdict.FAIL,
        f"request id {twice[0]} was sent by two tenants; engines keep one state for an id, so both "
        "requests count as affected: make ids at the gateway, fresh and random",
        kind=Kind.AVAILABILITY,
        requests=", ".join(twice[:20]),
    )


def _only(evidence: Evidence, rows: Sequence[Row]) -> Evidence:
    return Evidence(
        plan=evidence.plan, scene=evidence.scene, rows=tuple(rows), workers=evidence.workers
    )


def _doubt_readable(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why a code that is missing might be missing for other reasons."""
    if not any(row.echo is Echo.WHOLE for row in evidence.rows):
        yield inconclusive(
            "no answer of this round repeats a code of its own prompt, so a missing one means "
            "nothing, and neither does the absence of another's"
        )


def _doubt_answers(rows: Sequence[Row]) -> Iterator[Doubt]:
    served = [row for row in rows if row.is_served]
    if not served:
        silent = next((row for row in rows if row.is_silent), None)
        if silent is not None:
            yield inconclusive(f"{name_of(silent)} {came_to(silent)}, and so did all others")
        else:
            yield unexercised("nothing was answered")


def _doubt_kept(rows: Sequence[Row]) -> Iterator[Doubt]:
    """Answer that an answer is not there to be searched."""
    lost = [row for row in rows if row.is_served and not row.answer_length]
    if lost:
        yield inconclusive(
            f"of {count_of(len(rows), 'answer')} {len(lost)} were not kept, or are empty"
        )


def _doubt_alive(evidence: Evidence) -> Iterator[Doubt]:
    within = [row for row in evidence.rows if row.duty is Duty.ANSWER]
    if not any(row.outcome is Outcome.ANSWERED for row in within):
        yield inconclusive("nothing within the limit was answered, so a refusal means nothing")


def _cannot_fit(row: Row, evidence: Evidence) -> bool:
    pool = evidence.scene.pool
    return row.duty is Duty.ANSWER and 0 < pool < row.length + row.max_new_tokens
