"""Compares codes with the places of a text where a seed of theirs stands; numbers, no loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from probes.marking.alphabet import MARKER_CHARACTERS, Bytes, Places
from probes.marking.evidence import MOST_EDITS, TOLERATED_EDITS, bits_of_gap, bits_of_segment
from probes.marking.seeds import MARGIN

Matches = NDArray[np.bool_]
Counts = NDArray[np.int8]

#: Rows compared at a time, so that memory does not grow with the text.
_BATCH: Final = 4096
_SEGMENTS: Final = tuple(combinations(range(MARKER_CHARACTERS + 1), 2))
_FIRSTS: Final = np.array([first for first, _ in _SEGMENTS])
_LASTS: Final = np.array([last for _, last in _SEGMENTS])
_LENGTHS: Final = _LASTS - _FIRSTS
_OUT_OF_REACH: Final = MOST_EDITS + 1


def _weights() -> NDArray[np.float32]:
    """Answer bits by segment and edits, with nothing for more edits than are scored."""
    weights = np.full((len(_SEGMENTS), _OUT_OF_REACH + 1), -np.inf, np.float32)
    for row, length in enumerate(_LENGTHS.tolist()):
        for edits in range(min(length, MOST_EDITS) + 1):
            weights[row, edits] = bits_of_segment(length, edits)
    return weights


_WEIGHTS: Final = _weights()
_ROWS: Final = np.arange(len(_SEGMENTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The best agreement of one code with one place. Unit: values of the searched strip."""

    row: int
    start: int
    length: int
    characters: int
    edits: int
    bits: float


def score(wide: Bytes, diagonals: Places, codes: Bytes) -> Iterator[Scored]:
    """Answer for each code how well it agrees where its first character would stand.

    Shape: ``wide`` is the strip between margins, ``diagonals`` (n,), ``codes`` (n, 24).
    """
    for first in range(0, len(diagonals), _BATCH):
        part = slice(first, first + _BATCH)
        yield from _score(wide, diagonals[part], codes[part], first)


def longest_exact(wide: Bytes, diagonals: Places, codes: Bytes) -> Iterator[Scored]:
    """Answer for each code its longest unchanged part at that place. Shape: as `score`."""
    for first in range(0, len(diagonals), _BATCH):
        part = slice(first, first + _BATCH)
        changed = _changed_in_segments(_matches(wide, diagonals[part], codes[part], 0))
        lengths = np.where(changed == 0, _LENGTHS, 0)
        best = lengths.argmax(axis=1)
        for row, segment in enumerate(best.tolist()):
            length = int(lengths[row, segment])
            yield Scored(
                row=first + row,
                start=int(diagonals[first + row]) + int(_FIRSTS[segment]),
                length=length,
                characters=length,
                edits=0,
                bits=bits_of_segment(length, 0),
            )


def _matches(wide: Bytes, diagonals: Places, codes: Bytes, shift: int) -> Matches:
    places = diagonals[:, None] + (MARGIN + shift) + np.arange(MARKER_CHARACTERS)
    matches: Matches = wide[places] == codes
    return matches


def _changed_in_segments(matches: Matches) -> Counts:
    changed = _before(~matches)
    return changed[:, _LASTS] - changed[:, _FIRSTS]


def _before(marked: Matches) -> Counts:
    """Answer how many are marked before each place. Shape: (n, 25)."""
    counts = np.zeros((len(marked), MARKER_CHARACTERS + 1), np.int8)
    np.cumsum(marked, axis=1, out=counts[:, 1:], dtype=np.int8)
    return counts


def _score(wide: Bytes, diagonals: Places, codes: Bytes, first: int) -> Iterator[Scored]:
    changed = np.minimum(_changed_in_segments(_matches(wide, diagonals, codes, 0)), _OUT_OF_REACH)
    weights = _WEIGHTS[_ROWS, changed]
    best = weights.argmax(axis=1)
    gaps = _Gaps(wide, diagonals, codes)
    for row, segment in enumerate(best.tolist()):
        straight = Scored(
            row=first + row,
            start=int(diagonals[row]) + int(_FIRSTS[segment]),
            length=int(_LENGTHS[segment]),
            characters=int(_LENGTHS[segment]),
            edits=int(changed[row, segment]),
            bits=float(weights[row, segment]),
        )
        gapped = gaps.best(row, first)
        yield gapped if gapped is not None and gapped.bits > straight.bits else straight


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One way to lose or gain a character: where the part before and the part after stand."""

    before: int
    after: int

    @property
    def is_deletion(self) -> bool:
        return self.after < self.before

    @property
    def whole(self) -> int:
        """Answer how many characters of the code are left."""
        return MARKER_CHARACTERS - self.is_deletion


_WAYS: Final = (
    _Way(before=0, after=-1),
    _Way(before=1, after=0),
    _Way(before=0, after=1),
    _Way(before=-1, after=0),
)


class _Gaps:
    """How well whole codes agree when one character is lost or gained, all ways at once."""

    def __init__(self, wide: Bytes, diagonals: Places, codes: Bytes) -> None:
        self._diagonals = diagonals
        before = {shift: _before(_matches(wide, diagonals, codes, shift)) for shift in (-1, 0, 1)}
        changed = []
        for way in _WAYS:
            after = before[way.after]
            # Of a code that lost a character, the part behind begins one later.
            rest = after[:, -1:] - after[:, way.is_deletion :]
            agreeing = (before[way.before][:, : rest.shape[1]] + rest).max(axis=1)
            changed.append(way.whole - agreeing)
        self._changed = np.stack(changed, axis=1)

    def best(self, row: int, first: int) -> Scored | None:
        """Answer the likeliest way for a row, where few enough characters are changed besides."""
        found = None
        for way, changed in zip(_WAYS, self._changed[row].tolist(), strict=True):
            if changed + 1 > TOLERATED_EDITS:
                continue
            bits = bits_of_gap(is_deletion=way.is_deletion, edits=changed)
            if found is None or bits > found.bits:
                found = Scored(
                    row=first + row,
                    start=int(self._diagonals[row]) + way.before,
                    length=MARKER_CHARACTERS + way.after - way.before,
                    characters=way.whole,
                    edits=changed + 1,
                    bits=bits,
                )
        return found
