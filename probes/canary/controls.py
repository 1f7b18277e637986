"""Why a silence does not mean a pass: the positive controls of a round, and what was not sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.rounds import Duty, Echo, Outcome, Part, Row

#: New tokens with which any model has room to repeat a code of 24 characters.
ECHO_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One reason why an oracle cannot pass."""

    verdict: Verdict
    reason: str


def inconclusive(reason: str) -> Doubt:
    """Answer that a control failed, so that nothing can be told."""
    return Doubt(verdict=Verdict.INCONCLUSIVE, reason=reason)


def unexercised(reason: str) -> Doubt:
    """Answer that what an oracle needs was not sent."""
    return Doubt(verdict=Verdict.NOT_EXERCISED, reason=reason)


def asks_of(evidence: Evidence) -> list[Row]:
    """Answer the rows in which tenant B asks."""
    return [row for row in evidence.rows if row.part is Part.ASK]


def controls_of(evidence: Evidence, duty: Duty) -> list[Row]:
    """Answer the positive controls that owe this duty."""
    return [row for row in evidence.rows if row.part is Part.CONTROL and row.duty is duty]


def name_of(row: Row) -> str:
    """Answer a row in words."""
    return f"a prompt of {row.length:,} tokens ({row.purpose})"


def count_of(count: int, noun: str) -> str:
    """Answer a count and its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def doubt_fill(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why the pool does not surely hold markers that could come back."""
    fills = [row for row in evidence.rows if row.part is Part.FILL]
    lost = [row for row in fills if not (row.outcome is Outcome.ANSWERED and row.is_read_whole)]
    if not fills or lost:
        why = f": {name_of(lost[0])} {came_to(lost[0])}" if lost else ""
        yield unexercised(f"tenant A did not fill the pool{why}")
    elif not any(row.echo is Echo.WHOLE for row in fills):
        yield inconclusive(
            "a marker did not come back even to the tenant who sent it, so its absence elsewhere "
            "means nothing"
        )


def doubt_search(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why the answers do not surely show what they were made from."""
    asks = asks_of(evidence)
    yield from doubt_unsent(asks)
    for row in asks:
        if row.is_silent or row.outcome is Outcome.UNAUTHORISED:
            yield inconclusive(f"{name_of(row)} {came_to(row)}")
        elif row.is_served and _is_of_unknown_origin(row):
            yield inconclusive(
                f"{name_of(row)} was answered, and not from its own prompt: that nobody's marker "
                "is in the answer excludes nothing"
            )
    if not any(row.is_served and row.max_new_tokens >= ECHO_TOKENS for row in asks):
        yield unexercised("no answer was long enough to show a marker")


def _is_of_unknown_origin(row: Row) -> bool:
    """Answer whether an answer shows nothing of its own prompt, as far as that can be told.

    Over the limit even an answer too short to tell counts: it should not be there.
    """
    if row.duty is Duty.ANSWER:
        return row.echo is Echo.MISSING
    return row.echo in {Echo.MISSING, Echo.NOT_LOOKED_FOR}


def doubt_echo(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why a missing code would mean nothing."""
    yield from doubt_control(evidence)
    answered = [row for row in controls_of(evidence, Duty.ANSWER) if row.is_served]
    if answered and not any(row.echo is Echo.WHOLE for row in answered):
        yield inconclusive(
            "the model did not repeat a code even from a short prompt, so a missing one means "
            "nothing"
        )
    yield from _doubt_long(evidence, answered)


def _doubt_long(evidence: Evidence, short: Sequence[Row]) -> Iterator[Doubt]:
    """Answer that a code is missing from a long prompt where none that long brought one back."""
    missing = [row for row in asks_of(evidence) if row.echo is Echo.MISSING]
    fills = [row for row in evidence.rows if row.part is Part.FILL and row.is_served]
    least = min((row.length for row in missing), default=0) // 2
    like = [row for row in (*fills, *short) if row.length >= least]
    if missing and fills and all(row.echo is Echo.MISSING for row in like):
        yield inconclusive(
            f"no prompt of {least:,} tokens or more brought its code back before either, so a "
            "missing one means nothing"
        )


def doubt_control(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why not even a short prompt is read and answered."""
    for row in controls_of(evidence, Duty.ANSWER):
        if row.outcome is not Outcome.ANSWERED:
            yield inconclusive(f"not even a short prompt was answered: it {came_to(row)}")
        elif not row.is_read_whole:
            yield inconclusive(_miscounted(row))
    if not controls_of(evidence, Duty.ANSWER):
        yield inconclusive("no short prompt was asked first")


def doubt_refusals(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why a refusal might be no refusal."""
    yield from doubt_control(evidence)
    controls = controls_of(evidence, Duty.REFUSAL)
    if not controls:
        yield inconclusive("the context is not known, so no refusal was seen that cannot fail")
    for row in controls:
        if row.outcome is not Outcome.REFUSED:
            yield inconclusive(f"a prompt as long as the context {came_to(row)}")


def doubt_asks(evidence: Evidence, duty: Duty) -> Iterator[Doubt]:
    """Answer which prompts of a duty did not end as they must."""
    wanted = Outcome.ANSWERED if duty is Duty.ANSWER else Outcome.REFUSED
    due = [row for row in asks_of(evidence) if row.duty is duty]
    yield from doubt_unsent(due)
    for row in due:
        if row.is_sent and row.outcome is not wanted:
            yield inconclusive(f"{name_of(row)} {came_to(row)}")


def doubt_counts(evidence: Evidence) -> Iterator[Doubt]:
    """Answer where the engine counts other tokens than were sent."""
    for row in asks_of(evidence):
        if row.duty is Duty.ANSWER and row.is_served and not row.is_read_whole:
            yield inconclusive(_miscounted(row))


def doubt_unsent(rows: Iterable[Row]) -> Iterator[Doubt]:
    """Answer which rows were not sent, those with one reason together."""
    lengths: dict[str, list[int]] = {}
    for row in rows:
        if not row.is_sent:
            lengths.setdefault(row.reason, []).append(row.length)
    for reason, missed in lengths.items():
        shown = ", ".join(f"{length:,}" for length in dict.fromkeys(missed))
        yield unexercised(f"not asked at {shown} tokens: {reason}")


def came_to(row: Row) -> str:
    """Answer in words how a row ended."""
    if not row.is_sent:
        return f"was not sent: {row.reason}"
    if row.outcome is Outcome.REFUSED:
        return f"was refused with status {row.status} ({row.cause})"
    if row.outcome is Outcome.ANSWERED:
        counted = "" if row.is_read_whole else f", counted as {row.prompt_tokens} tokens"
        return f"was answered with status {row.status}{counted}"
    if row.outcome is Outcome.NO_ANSWER:
        return f"got no answer in {row.seconds:.1f} s: {row.reason}"
    return f"ended as {row.outcome.replace('_', ' ')}: {row.reason}"


def _miscounted(row: Row) -> str:
    return f"the engine counts {row.prompt_tokens} tokens in a prompt of {row.length}"
