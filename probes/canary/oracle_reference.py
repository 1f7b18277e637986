"""Oracle: the same prompt is answered the same, alone, among others, and after the pool churned.

Corruption shows here long before anybody's text does: stale pages give garbage first, and readable
foreign text only sometimes. Source: detection.md A1, A6; cases C07, C08, C10 of the public reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import Doubt, came_to, count_of, inconclusive, name_of, unexercised
from probes.canary.rounds import Echo, Outcome, Part, Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

REFERENCE = "reference"
KIND = Kind.CORRUPTION
#: So many answers whose first token differs are no ties, even of a model that repeats nothing.
_TIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A prompt that was sent more than once: alone first, and again under other conditions."""

    script: str
    alone: tuple[Row, ...]
    again: tuple[Row, ...]

    @property
    def is_repeatable(self) -> bool:
        """Answer whether the same prompt alone was answered the same each time."""
        said = {row.said_digest for row in self.alone if row.outcome is Outcome.ANSWERED}
        return len(self.alone) > 1 and len(said) == 1 and "" not in said


def comparisons_of(evidence: Evidence) -> list[Comparison]:
    """Answer every prompt that was sent more than once, in the order of their first sending.

    Controls are what a prompt is answered alone; asks are what is compared with them. One whose
    client left, as planned, brought no answer that could be. Answers of other lengths, or by
    another route, are others.
    """
    scripts: dict[tuple[str, int, str], list[Row]] = {}
    for row in evidence.rows:
        if row.script:
            key = row.script, row.max_new_tokens, row.api
            scripts.setdefault(key, []).append(row)
    return [
        Comparison(
            script=script,
            alone=tuple(row for row in rows if row.part is Part.CONTROL),
            again=tuple(
                row for row in rows if row.part is Part.ASK and row.outcome is not Outcome.LEFT
            ),
        )
        for (script, *_), rows in scripts.items()
    ]


def judge_reference(evidence: Evidence) -> Check:
    """Fail where a prompt is answered otherwise than it was alone, at temperature 0."""
    compared = [one for one in comparisons_of(evidence) if one.again]
    judged = [one for one in compared if one.is_repeatable]
    pairs = [(one, row) for one in judged for row in one.again if row.is_served]
    unlike = [(one, row) for one, row in pairs if _differs(one, row)]
    early = [(one, row) for one, row in unlike if not _is_late(one, row)]
    wrong = [row for _, row in early]
    if len(wrong) >= _TIES or any(not _may_be_tie(one, row) for one, row in early):
        return _failed(evidence, wrong, len(pairs))
    doubts = [*_doubt(evidence, compared), *(_late(row) for _, row in unlike)]
    reason = (
        f"{count_of(len(pairs), 'answer')} to {count_of(len(judged), 'prompt')} like the same "
        "prompt alone"
    )
    return settled(evidence, REFERENCE, doubts, reason, kind=KIND, compared=len(pairs))


def _failed(evidence: Evidence, wrong: Sequence[Row], compared: int) -> Check:
    row = wrong[0]
    others = sum(one.is_bystander for one in wrong)
    hit = f", {count_of(others, 'bystander')} among them" if others else ""
    lengths = sorted({one.length for one in wrong})
    return check_of(
        evidence,
        REFERENCE,
        Verdict.FAIL,
        f"{len(wrong)} of {count_of(compared, 'answer')}{hit} differ from what the same prompt "
        f"brings alone at temperature 0, first {name_of(row)}: it was not made from its own pages",
        kind=KIND,
        row=row,
        mismatches=len(wrong),
        compared=compared,
        rate=len(wrong) / compared,
        lengths=lengths[:20],
        requests=", ".join(one.request for one in wrong[:20]),
    )


def _differs(comparison: Comparison, row: Row) -> bool:
    return row.said_digest != comparison.alone[0].said_digest


def _is_late(comparison: Comparison, row: Row) -> bool:
    """Answer whether an answer begins as it should, shows its own code, and differs after that.

    Requests that are computed together round their sums in another order, and at temperature 0 a
    tie then falls otherwise. That is no corruption, and nobody can tell it from a slight one.
    """
    first = comparison.alone[0]
    begins_alike = bool(row.opening_digest) and row.opening_digest == first.opening_digest
    is_read = row.echo is Echo.WHOLE or first.echo is not Echo.WHOLE
    return row.wave > 0 and begins_alike and is_read


def _may_be_tie(comparison: Comparison, row: Row) -> bool:
    """Answer whether a first token may be a tie: not even alone does the model show what it reads.

    One tie at the very first token is rare, and several in a round are none.
    """
    return row.wave > 0 and comparison.alone[0].echo is not Echo.WHOLE


def _late(row: Row) -> Doubt:
    return inconclusive(
        f"{name_of(row)} is answered otherwise than alone, in a way that computing it together "
        "with others can bring too: send it again, alone"
    )


def _doubt(evidence: Evidence, compared: Sequence[Comparison]) -> Iterator[Doubt]:
    if not compared:
        yield unexercised("no prompt was sent alone and again")
    for one in compared:
        yield from _doubt_alone(one)
        for row in one.again:
            if not row.is_served:
                yield _unserved(row)
    if evidence.rows and not any(row.is_sent for row in evidence.rows):
        yield unexercised("nothing was sent")


def _doubt_alone(one: Comparison) -> Iterator[Doubt]:
    if len(one.alone) < 2:  # noqa: PLR2004 - one to be like, and one that is
        yield inconclusive(
            "a prompt was not sent alone twice, so nobody knows that it is answered alike at all"
        )
    elif not one.is_repeatable:
        lost = next((row for row in one.alone if row.outcome is not Outcome.ANSWERED), None)
        why = (
            "even alone the same prompt is not answered alike at temperature 0"
            if lost is None
            else f"{name_of(lost)} {came_to(lost)}"
        )
        yield inconclusive(f"{why}, so a difference means nothing")


def _unserved(row: Row) -> Doubt:
    text = f"{name_of(row)} {came_to(row)}"
    return inconclusive(text) if row.is_sent else unexercised(text)
