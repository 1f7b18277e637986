"""Oracle: the first token of an answer is that of its own prompt, not of a neighbour's.

Decode gets the first token from prefill beside the KV; where it takes another request's, all that
follows can be right. Source: case C09 of the public reports (SGLang issue 17259).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import Doubt, came_to, count_of, inconclusive, name_of, unexercised
from probes.canary.oracle_reference import Comparison, comparisons_of
from probes.canary.rounds import Echo, Outcome, Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

FIRST_TOKEN = "first_token"  # noqa: S105 - a check's name
KIND = Kind.CORRUPTION
#: One to be like, and one that is.
_TWICE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A prompt with the one opening that its answers had alone, empty where they had several.

    ``is_code``: alone they begin with the code that it asks for.
    """

    opening: str
    is_code: bool
    comparison: Comparison


def judge_first_token(evidence: Evidence) -> Check:
    """Fail where an answer begins otherwise than alone, with another's token or without its code.

    A first token that differs before the right code may be a tie that fell otherwise, and so may
    any where the model does not begin with the code.
    """
    opened = [_opened(one) for one in comparisons_of(evidence) if one.again]
    known = {one.opening for one in opened if one.opening}
    codes = {one.opening for one in opened if one.is_code}
    pairs = [(one, row) for one in opened if one.opening for row in one.comparison.again]
    shown = [(one, row) for one, row in pairs if row.is_served and row.opening_digest]
    unlike = [(one, row) for one, row in shown if row.opening_digest != one.opening]
    wrong = [row for one, row in unlike if one.is_code and _is_wrong(row, codes)]
    if wrong:
        return _failed(evidence, wrong, compared=len(shown), known=codes)
    doubts = [*_doubt(opened, known), *(_tie(row) for _, row in unlike)]
    doubts += [_unshown(row) for _, row in pairs if not (row.is_served and row.opening_digest)]
    reason = f"{count_of(len(shown), 'answer')} begin as the same prompt's does alone"
    return settled(evidence, FIRST_TOKEN, doubts, reason, kind=KIND, compared=len(shown))


def _opened(comparison: Comparison) -> _Opened:
    alone = [row for row in comparison.alone if row.outcome is Outcome.ANSWERED]
    openings = {row.opening_digest for row in alone}
    is_told = len(alone) >= _TWICE and len(openings) == 1
    is_code = is_told and all(row.echo is Echo.WHOLE and row.echo_offset == 0 for row in alone)
    return _Opened(
        opening=openings.pop() if is_told else "", is_code=is_code, comparison=comparison
    )


def _is_wrong(row: Row, codes: set[str]) -> bool:
    return row.opening_digest in codes or row.echo is not Echo.WHOLE


def _failed(evidence: Evidence, wrong: Sequence[Row], *, compared: int, known: set[str]) -> Check:
    row = next((one for one in wrong if one.opening_digest in known), wrong[0])
    how = (
        "with the first token of another prompt's answer"
        if row.opening_digest in known
        else "with a token that its prompt does not bring"
    )
    return check_of(
        evidence,
        FIRST_TOKEN,
        Verdict.FAIL,
        f"{len(wrong)} of {count_of(compared, 'answer')} begin otherwise than alone; that to "
        f"{name_of(row)} of {row.tenant} begins {how}",
        kind=KIND,
        row=row,
        wrong=len(wrong),
        compared=compared,
        rate=len(wrong) / compared,
        requests=", ".join(one.request for one in wrong[:20]),
    )


def _doubt(opened: Sequence[_Opened], known: set[str]) -> Iterator[Doubt]:
    if not opened:
        yield unexercised("no prompt was sent alone and again")
    elif any(not one.opening for one in opened):
        yield inconclusive(
            "alone the same prompt was not answered twice with one first token, so another one "
            "means nothing"
        )
    elif len(known) < _TWICE:
        yield inconclusive(
            "the answers to different prompts begin alike, so an exchanged first token could not "
            "be told"
        )


def _tie(row: Row) -> Doubt:
    return inconclusive(
        f"{name_of(row)} begins otherwise than alone, with no other prompt's code: it may be a tie "
        "that fell otherwise among others; send it again"
    )


def _unshown(row: Row) -> Doubt:
    if not row.is_sent:
        return unexercised(f"{name_of(row)} {came_to(row)}")
    return inconclusive(f"{name_of(row)} {came_to(row)}, and shows no first token")
