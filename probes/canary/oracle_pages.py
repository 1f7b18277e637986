"""Oracle: the codes of pages that a prompt asks for come back among others as they do alone.

A page that somebody else overwrote may leave the end of a prompt whole: then its last code comes
back, and what differs after it could be a tie that fell otherwise. A code that a model copied each
time when it was alone, and now leaves out of the middle of its list, is no such tie; where the list
only ends sooner, the model may have gone another way. Source: detection.md A4, "give the code of
pages i, j, k".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import Doubt, came_to, count_of, inconclusive, name_of, unexercised
from probes.canary.oracle_reference import Comparison, comparisons_of
from probes.canary.rounds import Outcome, Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

PAGE_CODES = "page_codes"
KIND = Kind.CORRUPTION
_TWICE = 2
#: So many codes a prompt asks for: with their lines they fit an answer of ``ROOM`` tokens.
CODES = 5
#: New tokens of such an answer; what is left of them shows what else the pages hold.
ROOM = 192


def judge_page_codes(evidence: Evidence) -> Check:
    """Fail where the code of a page is missing that came back each time the prompt was alone.

    Where all codes after a place in its list are missing, and none before, that is a doubt.
    """
    compared = [one for one in comparisons_of(evidence) if one.again]
    known = [(one, _shown_alone(one)) for one in compared]
    pairs = [(pages, row) for one, pages in known for row in one.again if len(pages) >= _TWICE]
    served = [(pages, row) for pages, row in pairs if row.is_served]
    short = [(pages, row) for pages, row in served if not set(row.missing_pages).isdisjoint(pages)]
    wrong = [(row, _lost(pages, row)) for pages, row in short if not _ends_sooner(pages, row)]
    if wrong:
        return _failed(evidence, wrong, compared=len(served))
    doubts = [*_doubt(known), *_doubt_served(pairs), *(_sooner(row) for _, row in short)]
    reason = f"all codes of pages that came back alone are in {count_of(len(served), 'answer')}"
    return settled(evidence, PAGE_CODES, doubts, reason, kind=KIND, compared=len(served))


def _shown_alone(comparison: Comparison) -> tuple[int, ...]:
    """Answer the pages whose codes came back each time, in the order of the first answer.

    Nothing where it was asked but once.
    """
    alone = [row for row in comparison.alone if row.outcome is Outcome.ANSWERED]
    if len(alone) < _TWICE:
        return ()
    shown = [set(row.asked_pages) - set(row.missing_pages) for row in alone]
    kept = set.intersection(*shown)
    said = sorted((one.offset, one.page) for one in alone[0].sightings if one.is_own)
    return tuple(dict.fromkeys(page for _, page in said if page in kept))


def _lost(pages: Sequence[int], row: Row) -> frozenset[int]:
    return frozenset(pages) & frozenset(row.missing_pages)


def _ends_sooner(pages: Sequence[int], row: Row) -> bool:
    """Answer whether the answer begins as alone and only lacks what would come later."""
    lost = _lost(pages, row)
    kept = len(pages) - len(lost)
    return kept > 0 and lost.isdisjoint(pages[:kept])


def _sooner(row: Row) -> Doubt:
    return inconclusive(
        f"the answer to {name_of(row)} lists fewer codes of its pages than alone, from some place "
        "on, which computing it together with others can bring too: send it again"
    )


def _failed(
    evidence: Evidence, wrong: Sequence[tuple[Row, frozenset[int]]], *, compared: int
) -> Check:
    row, lost = wrong[0]
    pages = ", ".join(str(page) for page in sorted(lost))
    return check_of(
        evidence,
        PAGE_CODES,
        Verdict.FAIL,
        f"the answer to {name_of(row)} of {row.tenant} lacks the codes of its own pages {pages}, "
        "which came back each time the same prompt was alone: those pages were not its own",
        kind=KIND,
        row=row,
        pages=sorted(lost),
        wrong=len(wrong),
        compared=compared,
        rate=len(wrong) / compared,
        requests=", ".join(one.request for one, _ in wrong[:20]),
    )


def _doubt(known: Sequence[tuple[Comparison, tuple[int, ...]]]) -> Iterator[Doubt]:
    if not known:
        yield unexercised("no prompt was sent alone and again")
    elif not any(len(pages) >= _TWICE for _, pages in known):
        yield unexercised(
            "not even alone do the codes of several pages come back, so a missing one means nothing"
        )


def _doubt_served(pairs: Sequence[tuple[tuple[int, ...], Row]]) -> Iterator[Doubt]:
    for _, row in pairs:
        if not row.is_sent:
            yield unexercised(f"{name_of(row)} {came_to(row)}")
        elif not row.is_served:
            yield inconclusive(f"{name_of(row)} {came_to(row)}")
