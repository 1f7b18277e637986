"""Finds codes in any text: split, re-cased, encoded, backward, damaged, in part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from probes.marking.alphabet import (
    BETWEEN,
    BREAK,
    MARKER_CHARACTERS,
    Bytes,
    Places,
    code_points,
    read_points,
    values_of,
)
from probes.marking.code import PROOF_BITS, SEEDS, Marker, MarkerKey
from probes.marking.evidence import (
    SUSPECT_BITS,
    Effort,
    Finding,
    Found,
    View,
    space_bits,
    weigh,
)
from probes.marking.outline import Excerpt
from probes.marking.scan import Candidates, Tagged, scan
from probes.marking.scoring import Scored, longest_exact, score
from probes.marking.seeds import SLOT_BITS, SLOTS, SeedTable, with_margin
from probes.marking.sieve import Sieve, best_sieve
from probes.marking.strips import Strip, strips_of

#: Shortest fragment that is evidence by itself: 100 bits, 74 net. Source: detection.md A3.
FRAGMENT_CHARACTERS: Final = 20

_SLOT_SEEDS: Final = np.array(SEEDS * 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A marker, or a fragment of one, in a text. Unit of offset and length: characters."""

    marker: Marker
    offset: int
    length: int

    @property
    def is_whole(self) -> bool:
        """Answer whether the whole code was there."""
        return self.length == MARKER_CHARACTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Codes to compare with places. Shape: (n,) and, for the codes as they stand, (n, 24)."""

    numbers: Places
    diagonals: Places
    is_backward: Places
    codes: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A finding whose place in the original text is not known yet."""

    strip: Strip
    scored: Scored
    marker: Marker
    is_backward: bool
    net_bits: float
    is_live: bool

    @property
    def run(self) -> tuple[int, int]:
        return self.marker.tenant, self.marker.request

    def place(self, offset: int, end: int) -> Finding:
        """Answer the finding from here to there in the original text."""
        return Finding(
            marker=self.marker,
            view=self._view(end - offset),
            offset=offset,
            length=end - offset,
            characters=self.scored.characters,
            edits=self.scored.edits,
            bits=self.scored.bits,
            net_bits=self.net_bits,
            is_live=self.is_live,
        )

    def _view(self, length: int) -> View:
        if self.strip.view is not View.PLAIN:
            return self.strip.view
        if self.is_backward:
            return View.REVERSED
        return View.SPLIT if length > self.scored.length else View.PLAIN


class MarkerIndex:
    """Knows live markers by their seeds, and any marker of its secret by its tag.

    A whole code needs no entry (its tag proves it), so codes of an earlier round are found too,
    as a suspicion: what is live is what the index was told of.
    """

    def __init__(
        self, key: MarkerKey, planted: Iterable[Marker] = (), *, sieve: Sieve | None = None
    ) -> None:
        self._key = key
        self._sieve = sieve or best_sieve()
        self._numbers: dict[Marker, int] = {}
        self._markers: list[Marker] = []
        self._fresh: list[str] = []
        self._codes = np.zeros((0, MARKER_CHARACTERS), np.uint8)
        self._table = SeedTable()
        for marker in planted:
            self.add(marker)

    def __len__(self) -> int:
        """Answer how many markers are live."""
        return len(self._markers)

    def __contains__(self, marker: Marker) -> bool:
        """Answer whether a marker is live."""
        return marker in self._numbers

    def add(self, marker: Marker) -> str:
        """Answer the code of a marker, and from now on know it by its fragments."""
        code = self._key.write(marker)
        if marker not in self._numbers:
            self._numbers[marker] = len(self._markers)
            self._markers.append(marker)
            self._fresh.append(code)
        return code

    def search(self, text: str) -> tuple[Hit, ...]:
        """Answer whole codes and unchanged fragments as they stand, in order of place.

        What an answer must repeat has to come like this. What leaks may come in any form: `find`.
        Never raises on any text.
        """
        readings = read_points(code_points(text))
        values = np.where(readings == BETWEEN, np.uint8(BREAK), readings)
        candidates = self._scan(Excerpt(values=values))
        hits = [
            Hit(marker=one.marker, offset=one.at, length=MARKER_CHARACTERS)
            for one in candidates.tagged
            if not one.is_backward
        ]
        rows = self._rows(candidates)
        for one in longest_exact(with_margin(values), rows.diagonals, rows.codes):
            if one.length >= FRAGMENT_CHARACTERS and not rows.is_backward[one.row]:
                marker = self._markers[int(rows.numbers[one.row])]
                hits.append(Hit(marker=marker, offset=one.start, length=one.length))
        return tuple(_apart(hits))

    def find(self, text: str) -> Found:
        """Answer all that a text holds of markers, in every view, weighed. Never raises."""
        drafts: list[_Draft] = []
        effort = Effort()
        for strip in strips_of(text, self._sieve):
            candidates = self._scan(strip.excerpt)
            rows = self._rows(candidates)
            drafts += self._live(strip, rows, len(text))
            drafts += self._tagged(strip, candidates.tagged, len(text))
            effort += Effort(
                characters=strip.size,
                windows=candidates.windows,
                seeds=len(rows.numbers),
                decodes=candidates.decodes,
            )
        return weigh(_best_apart(_placed(drafts)), effort)

    def _scan(self, excerpt: Excerpt) -> Candidates:
        if self._fresh:
            fresh = values_of("".join(self._fresh)).reshape(-1, MARKER_CHARACTERS)
            self._table.add(fresh, len(self._codes))
            self._codes = np.concatenate([self._codes, fresh])
            self._fresh.clear()
        return scan(excerpt, self._table, self._key)

    def _rows(self, candidates: Candidates) -> _Rows:
        """Answer each code once for each place where one of its seeds puts it."""
        slots = (candidates.owners & ((1 << SLOT_BITS) - 1)).astype(np.intp)
        numbers = (candidates.owners >> SLOT_BITS).astype(np.intp)
        diagonals = candidates.places - _SLOT_SEEDS[slots]
        turns = (slots >= SLOTS // 2).astype(np.intp)
        _, kept = np.unique(
            ((diagonals + MARKER_CHARACTERS) * 2 + turns) << 32 | numbers, return_index=True
        )
        numbers, diagonals, turns = numbers[kept], diagonals[kept], turns[kept]
        codes = self._codes[numbers]
        codes[turns == 1] = codes[turns == 1, ::-1]
        return _Rows(numbers=numbers, diagonals=diagonals, is_backward=turns, codes=codes)

    def _live(self, strip: Strip, rows: _Rows, size: int) -> Iterator[_Draft]:
        if not len(rows.numbers):
            return
        penalty = space_bits(size, len(self))
        for one in score(with_margin(strip.values()), rows.diagonals, rows.codes):
            if one.bits > penalty:
                yield _Draft(
                    strip=strip,
                    scored=one,
                    marker=self._markers[int(rows.numbers[one.row])],
                    is_backward=bool(rows.is_backward[one.row]),
                    net_bits=one.bits - penalty,
                    is_live=True,
                )

    def _tagged(self, strip: Strip, tagged: Iterable[Tagged], size: int) -> Iterator[_Draft]:
        for one in tagged:
            if one.marker not in self:
                yield _Draft(
                    strip=strip,
                    scored=Scored(
                        row=-1,
                        start=one.at,
                        length=MARKER_CHARACTERS,
                        characters=MARKER_CHARACTERS,
                        edits=0,
                        bits=float(PROOF_BITS),
                    ),
                    marker=one.marker,
                    is_backward=one.is_backward,
                    net_bits=PROOF_BITS - space_bits(size),
                    is_live=False,
                )


def _placed(drafts: list[_Draft]) -> Iterator[Finding]:
    """Answer findings at their places in the text, where those of a request weigh enough."""
    weights: dict[tuple[int, int], float] = defaultdict(float)
    for draft in drafts:
        weights[draft.run] += draft.net_bits
    # To find the places takes a pass over the text, which chance alone should not cost.
    worth = [draft for draft in drafts if weights[draft.run] >= SUSPECT_BITS]
    for _, group in groupby(worth, key=lambda draft: id(draft.strip)):
        of_strip = list(group)
        for draft, (offset, end) in zip(of_strip, _spans_of(of_strip), strict=True):
            yield draft.place(offset, end)


def _spans_of(drafts: list[_Draft]) -> Iterator[tuple[int, int]]:
    """Answer first place and end in the original text of what was found in one strip."""
    strip = drafts[0].strip
    starts = np.array([draft.scored.start for draft in drafts], np.intp)
    lasts = starts + np.array([draft.scored.length - 1 for draft in drafts], np.intp)
    edge = strip.size - 1
    offsets, ends = strip.spans(np.clip(starts, 0, edge), np.clip(lasts, 0, edge))
    yield from zip(offsets.tolist(), (ends + 1).tolist(), strict=True)


def _best_apart(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Answer findings without the lighter one where two of a marker overlap."""
    kept: Finding | None = None
    for one in sorted(findings, key=lambda one: (*one.run, one.marker.page, one.offset)):
        if kept is None or one.marker != kept.marker or one.offset >= kept.offset + kept.length:
            if kept is not None:
                yield kept
            kept = one
        elif one.net_bits > kept.net_bits:
            kept = one
    if kept is not None:
        yield kept


def _apart(hits: list[Hit]) -> Iterator[Hit]:
    """Answer hits in order of place; what overlaps an earlier one is a part of it."""
    end = 0
    for hit in sorted(hits, key=lambda one: (one.offset, -one.length)):
        if hit.offset >= end:
            yield hit
            end = hit.offset + hit.length
