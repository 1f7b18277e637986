"""Which windows of a text may be part of a code, and which codes hold such a window."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from probes.marking.alphabet import BREAK, MARKER_CHARACTERS, Bytes, Places
from probes.marking.code import (
    FIRST_DIGIT,
    FIRST_LETTER,
    LEAST_TURNS,
    SEED_CHARACTERS,
    SEEDS,
    Parts,
)

#: A seed as one number: its eight values, a byte each, the first the lowest.
Keys = NDArray[np.uint64]

#: Empty values before and after what is searched, so that a code may hang over its ends.
MARGIN: Final = 32
#: Seeds of a code as it is and read backward.
SLOTS: Final = 2 * len(SEEDS)
SLOT_BITS: Final = 4

_DIGITS: Final = 10 - FIRST_DIGIT
_SPARSE: Final = 4
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
#: Bits of the filter for each seed, of which six are set: of other windows one in 400 passes.
_SPARSENESS: Final = 16
_LEAST_WORDS: Final = 8
#: Patterns of six bits, of which a key chooses one.
_PATTERN: Final = np.uint64((1 << 12) - 1)


def _patterns() -> Keys:
    numbers = np.arange(int(_PATTERN) + 1, dtype=np.uint64) * _SPREAD
    patterns = np.zeros(len(numbers), np.uint64)
    for shift in (58, 52, 46, 40, 34, 28):
        patterns |= np.uint64(1) << (numbers >> np.uint64(shift) & np.uint64(63))
    return patterns


_PATTERNS: Final = _patterns()


def with_margin(values: Bytes) -> Bytes:
    """Answer the values between two margins that match nothing."""
    wide = np.full(len(values) + 2 * MARGIN, BREAK, np.uint8)
    wide[MARGIN : len(values) + MARGIN] = values
    return wide


def likely_windows(values: Bytes) -> NDArray[np.bool_]:
    """Answer at which places a window stands that a seed could look like.

    No break in it, and letters beside digits often enough: see `code.has_seeds`.
    """
    if len(values) < SEED_CHARACTERS:
        return np.zeros(0, np.bool_)
    digits = values - np.uint8(FIRST_DIGIT) < _DIGITS
    letters = values >= FIRST_LETTER
    turns = (digits[:-1] & letters[1:] | letters[:-1] & digits[1:]).view(np.uint8)
    twos = turns[:-1] + turns[1:]
    fours = twos[:-2] + twos[2:]
    breaks = values
    for step in (1, 2, 4):
        breaks = breaks[:-step] | breaks[step:]
    # Seven places to turn at in a window of eight.
    likely: NDArray[np.bool_] = fours[:-3] + twos[4:-1] + turns[6:] >= LEAST_TURNS
    likely &= breaks < BREAK
    return likely


def keys_at(values: Bytes, places: Places) -> Keys:
    """Answer the keys of the windows that begin at these places."""
    return _pick(_windows(values), places)


def parts_at(values: Bytes, places: Places) -> Parts:
    """Answer the parts of the codes that would stand at these places."""
    windows = _windows(values)
    begin, middle, end = (_pick(windows, places + step) for step in (0, 8, 16))
    return Parts(begin=begin, middle=middle, end=end)


def _pick(windows: Keys, places: Places) -> Keys:
    # To take many at once numpy first copies all of them: worth it only where most are wanted.
    if len(places) * _SPARSE < len(windows):
        return windows[places]
    return np.take(windows, places)


def _windows(values: Bytes) -> Keys:
    """Answer every eight values as one number, without computing any: each begins a byte later."""
    return np.ndarray((len(values) - 7,), "<u8", buffer=values, strides=(1,))


def whole_places(likely: NDArray[np.bool_]) -> Places:
    """Answer where a whole code could begin: each of its seeds looks like one."""
    count = len(likely) - SEEDS[-1]
    if count <= 0:
        return np.zeros(0, np.intp)
    whole = likely[:count].copy()
    for at in SEEDS[1:]:
        whole &= likely[at : at + count]
    return np.flatnonzero(whole)


class SeedTable:
    """Finds the codes that hold a window: sorted keys behind a filter that lets few others by.

    New codes make a segment of their own, and segments of like size are joined: to add codes one
    prompt after the other costs no more than a logarithm times their number.
    """

    def __init__(self) -> None:
        self._segments: list[tuple[Keys, NDArray[np.uint32]]] = []
        self._words = _LEAST_WORDS
        self._filter = np.zeros(1 << _LEAST_WORDS, np.uint64)

    def add(self, codes: Bytes, first: int) -> None:
        """Add codes, numbered from ``first``. Shape: (n, 24)."""
        keys, owners = _seeds_of(codes, first)
        while self._segments and len(self._segments[-1][0]) < 2 * len(keys):
            other_keys, other_owners = self._segments.pop()
            keys = np.concatenate([other_keys, keys])
            owners = np.concatenate([other_owners, owners])
        order = np.argsort(keys, kind="stable")
        self._segments.append((keys[order], owners[order]))
        self._refilter()

    def sift(self, keys: Keys) -> Places:
        """Answer which of very many keys may be seeds: all that are, and a few that are not."""
        words, bits = self._hash(keys)
        return np.flatnonzero(self._filter.take(words, mode="clip") & bits == bits)

    def look_up(self, keys: Keys) -> tuple[Places, NDArray[np.uint32]]:
        """Answer pairs of a place among the keys and an owner: code times 16 plus slot."""
        # In order, so that neighbours are looked up one after the other.
        order = np.argsort(keys)
        found = [_in_segment(keys[order], *segment) for segment in self._segments]
        places = [order[which] for which, _ in found]
        if not found:
            return np.zeros(0, np.intp), np.zeros(0, np.uint32)
        return np.concatenate(places), np.concatenate([owners for _, owners in found])

    def _hash(self, keys: Keys) -> tuple[Places, NDArray[np.uint64]]:
        """Answer a word of the filter and the six bits of it that stand for each key."""
        hashed = keys * _SPREAD
        words = (hashed >> np.uint64(64 - self._words)).view(np.int64)
        hashed >>= np.uint64(20)
        hashed &= _PATTERN
        return words, _PATTERNS.take(hashed.view(np.int64), mode="clip")

    def _refilter(self) -> None:
        total = sum(len(keys) for keys, _ in self._segments)
        fresh = [self._segments[-1][0]]
        if total * _SPARSENESS > 64 << self._words:
            # Made anew only when codes have doubled.
            self._words = (total * _SPARSENESS // 64).bit_length()
            self._filter = np.zeros(1 << self._words, np.uint64)
            fresh = [keys for keys, _ in self._segments]
        for keys in fresh:
            words, bits = self._hash(keys)
            np.bitwise_or.at(self._filter, words, bits)


def _seeds_of(codes: Bytes, first: int) -> tuple[Keys, NDArray[np.uint32]]:
    numbers = np.arange(first, first + len(codes), dtype=np.uint32) << np.uint32(SLOT_BITS)
    keys, owners = [], []
    for turn, rows in enumerate((codes, codes[:, ::-1])):
        flat = np.ascontiguousarray(rows).reshape(-1)
        starts = np.arange(len(codes)) * MARKER_CHARACTERS
        for slot, at in enumerate(SEEDS):
            keys.append(keys_at(flat, starts + at))
            owners.append(numbers + np.uint32(turn * len(SEEDS) + slot))
    return np.concatenate(keys), np.concatenate(owners)


def _in_segment(
    wanted: Keys, keys: Keys, owners: NDArray[np.uint32]
) -> tuple[Places, NDArray[np.uint32]]:
    first = np.searchsorted(keys, wanted, "left")
    held = np.flatnonzero(keys[np.minimum(first, len(keys) - 1)] == wanted)
    first = first[held]
    counts = np.searchsorted(keys, wanted[held], "right") - first
    ahead = np.cumsum(counts) - counts
    which = np.repeat(first - ahead, counts) + np.arange(counts.sum())
    return np.repeat(held, counts), owners[which]
