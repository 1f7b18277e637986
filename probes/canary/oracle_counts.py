"""Oracle: the engine counts the very tokens that were sent.

Source: case C01 of the public reports: an answer over the limit told of one prompt token.
"""

from __future__ import annotations

from collections.abc import Iterator

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import (
    Doubt,
    asks_of,
    count_of,
    doubt_unsent,
    inconclusive,
    name_of,
    unexercised,
)
from probes.canary.rounds import Part, Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

COUNTS = "token_counts"
KIND = Kind.CORRUPTION


def judge_counts(evidence: Evidence) -> Check:
    """Fail where an answer tells of another number of prompt tokens than was sent."""
    served = [row for row in evidence.rows if row.is_served and row.part is not Part.CONTROL]
    counted = [row for row in served if row.prompt_tokens is not None]
    wrong = next((row for row in counted if not row.is_read_whole), None)
    doubts = [*_doubt_control(evidence)]
    if wrong is not None and not doubts:
        return check_of(
            evidence,
            COUNTS,
            Verdict.FAIL,
            f"{name_of(wrong)} was answered, and the engine counts {wrong.prompt_tokens} tokens in "
            "it: it was not made from the whole prompt",
            kind=KIND,
            row=wrong,
        )
    doubts += [*doubt_unsent(asks_of(evidence)), *_doubt_rows(served, counted)]
    reason = f"the engine counts what was sent in {count_of(len(counted), 'answer')}"
    return settled(evidence, COUNTS, doubts, reason, kind=KIND)


def _doubt_control(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why the engine's counts cannot be held against ours: it may add tokens of its own."""
    controls = [row for row in evidence.rows if row.part is Part.CONTROL and row.is_served]
    if not controls:
        yield inconclusive("no short prompt was answered first, so its counts cannot be trusted")
    for row in controls:
        if not row.is_read_whole:
            yield inconclusive(
                f"the engine counts {row.prompt_tokens} tokens in a short prompt of {row.length}"
            )


def _doubt_rows(served: list[Row], counted: list[Row]) -> Iterator[Doubt]:
    if not served:
        yield unexercised("nothing was answered whose tokens could be counted")
    elif len(counted) < len(served):
        missing = len(served) - len(counted)
        yield inconclusive(f"{count_of(missing, 'answer')} did not tell its prompt tokens")
