"""Weighs what was found: bits that match, less the bits that the search alone would find."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Final

from probes.marking.alphabet import BITS_A_CHARACTER, MARKER_CHARACTERS
from probes.marking.code import Marker

#: One false alarm in 1e12 such amounts of 1e9 answers. Source: detection.md A3. Unit: net bits.
ALARM_BITS: Final = 70.0
#: Ten characters in a row of one of 16,385 codes in 4 KB. Of answers made of nothing but ids some
#: few in a million hold that by chance; it costs a replay. Source: ADR 17. Unit: net bits.
SUSPECT_BITS: Final = 20.0
#: Ways of reading each character of an answer, forward and backward: the text itself, base 64 by
#: four alignments of 3/4 its length, hex by two of a half. 2 x (1 + 3 + 1).
VIEWS: Final = 10
#: Changed characters that an alarm may rest on. Source: issue 4, "up to two substitutions".
TOLERATED_EDITS: Final = 2
#: Changed characters that are still scored.
MOST_EDITS: Final = 3


class Grade(StrEnum):
    """What a finding is good for: an alarm, a replay, or nothing."""

    ALARM = "alarm"
    SUSPECT = "suspect"
    NOTHING = "nothing"


class View(StrEnum):
    """How the text had to be read."""

    PLAIN = "plain"
    SPLIT = "split"
    REVERSED = "reversed"
    BASE64 = "base64"
    HEX = "hex"
    WORDS = "words"
    FACT = "fact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place where a text agrees with a marker, and what that weighs.

    ``characters`` counts those of the code that agree or were changed (words in view ``words``,
    parts in view ``fact``), ``edits`` those changed, lost or gained. ``is_live`` says that the
    index was told of the marker; else its tag alone speaks for it. ``grade`` is that of all pages
    of its request together. Unit of offset and length: characters of the original text.
    """

    marker: Marker
    view: View
    offset: int
    length: int
    characters: int
    edits: int
    bits: float
    net_bits: float
    is_live: bool
    grade: Grade = Grade.NOTHING

    @property
    def run(self) -> tuple[int, int]:
        """Answer tenant and request."""
        return self.marker.tenant, self.marker.request


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """What all distinct pages of one request weigh together."""

    tenant: int
    request: int
    pages: tuple[int, ...]
    net_bits: float
    grade: Grade


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What a search took, in counts: they grow with the text, never with its square."""

    characters: int = 0
    windows: int = 0
    seeds: int = 0
    decodes: int = 0

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            characters=self.characters + other.characters,
            windows=self.windows + other.windows,
            seeds=self.seeds + other.seeds,
            decodes=self.decodes + other.decodes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that a text holds of markers: findings in order of place, requests by weight."""

    findings: tuple[Finding, ...] = ()
    runs: tuple[RunEvidence, ...] = ()
    effort: Effort = Effort()

    @property
    def grade(self) -> Grade:
        """Answer the worst grade."""
        return self.runs[0].grade if self.runs else Grade.NOTHING

    def foreign(self, own: Collection[tuple[int, int]]) -> Found:
        """Answer what remains without the requests (tenant, request) that may be echoed."""
        return Found(
            findings=tuple(one for one in self.findings if one.run not in own),
            runs=tuple(one for one in self.runs if (one.tenant, one.request) not in own),
            effort=self.effort,
        )


def space_bits(places: int, live: int = 1) -> float:
    """Answer the bits that a search finds by chance: places of a text, all views, live markers.

    A code that is known by its tag alone is compared with no other; then ``live`` stays one.
    """
    return math.log2(max(1, places) * max(1, live) * VIEWS)


def bits_of_segment(length: int, edits: int) -> float:
    """Answer how unlikely it is that random characters agree but for some of them. Unit: bits."""
    return BITS_A_CHARACTER * length - math.log2(_spellings(length, edits))


@cache
def bits_of_gap(*, is_deletion: bool, edits: int) -> float:
    """Answer the bits of a whole code that lost or gained one character, others changed."""
    length = MARKER_CHARACTERS - is_deletion
    ways = MARKER_CHARACTERS + (not is_deletion)
    return bits_of_segment(length, edits) - math.log2(ways)


@cache
def _spellings(length: int, edits: int) -> int:
    others = (1 << BITS_A_CHARACTER) - 1
    return sum(math.comb(length, changed) * others**changed for changed in range(edits + 1))


def weigh(findings: Iterable[Finding], effort: Effort | None = None) -> Found:
    """Answer findings with their grades; distinct pages of one request add up, copies do not."""
    by_run: dict[tuple[int, int], list[Finding]] = defaultdict(list)
    for one in findings:
        if one.net_bits > 0:
            by_run[one.run].append(one)
    graded: list[Finding] = []
    runs: list[RunEvidence] = []
    for of_run in by_run.values():
        run = _weigh_run(of_run)
        if run.grade is not Grade.NOTHING:
            runs.append(run)
            graded += (replace(one, grade=run.grade) for one in of_run)
    return Found(
        findings=tuple(sorted(graded, key=lambda one: (one.offset, -one.net_bits))),
        runs=tuple(sorted(runs, key=lambda one: (one.grade is not Grade.ALARM, -one.net_bits))),
        effort=effort or Effort(),
    )


def _weigh_run(of_run: list[Finding]) -> RunEvidence:
    best: dict[int, float] = {}
    for one in of_run:
        if one.is_live:
            page = one.marker.page
            best[page] = max(one.net_bits, best.get(page, 0.0))
    # What its tag alone speaks for is not live any more: worth a replay, and no sum makes it more.
    tagged = max((one.net_bits for one in of_run if not one.is_live), default=0.0)
    total = sum(best.values())
    return RunEvidence(
        tenant=of_run[0].marker.tenant,
        request=of_run[0].marker.request,
        pages=tuple(sorted({one.marker.page for one in of_run})),
        net_bits=max(total, tagged),
        grade=_grade(total, tagged, is_alarming=len(best) > 1 or any(map(_is_alarming, of_run))),
    )


def _is_alarming(one: Finding) -> bool:
    return one.edits <= TOLERATED_EDITS and one.net_bits >= ALARM_BITS


def _grade(total: float, tagged: float, *, is_alarming: bool) -> Grade:
    if total >= ALARM_BITS and is_alarming:
        return Grade.ALARM
    return Grade.SUSPECT if max(total, tagged) >= SUSPECT_BITS else Grade.NOTHING
