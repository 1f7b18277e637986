"""The letters and digits of a text, packed once: where codes may stand, which encodings it holds.

A seed has digits, and so has hex: of a text in words only what is around digits is read. What is
ruled out here holds no seed and no candidate; what is not is looked for where it stands.
"""

from __future__ import annotations

import string
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from probes.marking.alphabet import ALPHABET, ASCII_BETWEEN, BREAK, READINGS, Bytes, Places
from probes.marking.code import FIRST_DIGIT, FIRST_LETTER, SEED_CHARACTERS
from probes.marking.evidence import View
from probes.marking.sieve import BASE64_GROUPS, HEX_PAIRS, ROLES

Marks = NDArray[np.bool_]

#: Characters that are kept or left out together: what is in a window with a digit is in its block
#: or in one of those beside it.
_BLOCK: Final = SEED_CHARACTERS
#: More blocks than this part of all are not worth to be put together.
_MOST_KEPT: Final = 0.6

_GROUP: Final = 4
_ROLE_BITS: Final = 4
#: Nothing is packed as what it reads as: to translate is then twice as fast.
_FIRST_ROW: Final = 2
#: From here on what is packed is a digit of those that no letter is taken for.
_DIGITS_FROM: Final = 13 << _ROLE_BITS
#: What fills the last block; no character is packed so, and it reads as a break.
_FILLER: Final = 12 << _ROLE_BITS

#: First digits of the hex of a letter or digit: from here, so many.
_FIRST_NIBBLE: Final = 3
_FIRST_NIBBLES: Final = 5
_NIBBLES: Final = 16
_X: Final = ALPHABET.index("X")
#: So many next to an x may be the first or the second of a pair.
_NEXT: Final = 2
#: From an x on, one more than a candidate is long; and where a digit need not be a first one.
_DISTANCES: Final = np.arange(1, 2 * HEX_PAIRS + 2)
_FREE: Final = tuple((odd == _DISTANCES % 2) | (_DISTANCES <= _NEXT) for odd in range(2))
#: One x in so many characters is more than is looked at one by one.
_MANY_EVERY: Final = 64


def _packing() -> tuple[bytes, bytes]:
    """Answer what each letter and digit is packed as, and what a packed one reads as.

    The low bits are the places of a group of base 64 where it can stand, so that one pass over a
    text serves all readings; the high bits tell those apart that stand at the same places.
    """
    packed, readings = bytearray(256), bytearray([BREAK]) * 256
    met: Counter[tuple[int, bool]] = Counter()
    for code in map(ord, string.ascii_letters + string.digits):
        roles, is_digit = ROLES[code], FIRST_DIGIT <= READINGS[code] < FIRST_LETTER
        first = _DIGITS_FROM if is_digit else _FIRST_ROW << _ROLE_BITS
        packed[code] = first + (met[roles, is_digit] << _ROLE_BITS) + roles
        met[roles, is_digit] += 1
        readings[packed[code]] = READINGS[code]
    return bytes(packed), bytes(readings)


_PACKED, _PACKED_READINGS = _packing()
_READINGS: Final = np.frombuffer(_PACKED_READINGS, np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Blocks of a reading, one behind the other; without ``blocks`` all of it."""

    values: Bytes
    blocks: Places | None = None

    def origins(self, places: Places) -> Places:
        """Answer where in the whole reading these places of the excerpt are."""
        if self.blocks is None:
            return places
        return self.blocks[places // _BLOCK] * _BLOCK + places % _BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """Letters and digits of a text, those that may be of a seed, the encodings it may hold."""

    packed: bytes
    excerpt: Excerpt
    views: frozenset[View]

    def values(self) -> Bytes:
        """Answer what all letters and digits read as."""
        return np.frombuffer(self.packed.translate(_PACKED_READINGS), np.uint8)


def outline_of(raw: bytes) -> Outline:
    """Answer the outline of a text of one byte a character."""
    packed = raw.translate(_PACKED, ASCII_BETWEEN)
    excerpt = _excerpt(packed)
    views = set()
    whole = np.frombuffer(packed, np.uint8)
    if _base64_marks(whole).any():
        views.add(View.BASE64)
    if _hex_marks(excerpt.values).any() or _may_be_hex_between_x(whole, excerpt):
        views.add(View.HEX)
    return Outline(packed=packed, excerpt=excerpt, views=frozenset(views))


def _excerpt(packed: bytes) -> Excerpt:
    """Answer the blocks that hold a digit and those beside them."""
    padded = packed + bytes([_FILLER]) * (-len(packed) % _BLOCK)
    words = np.frombuffer(padded, np.uint64)
    has_digit = (np.frombuffer(padded, np.uint8) >= _DIGITS_FROM).view(np.uint64) != 0
    is_near = has_digit.copy()
    is_near[1:] |= has_digit[:-1]
    is_near[:-1] |= has_digit[1:]
    if np.count_nonzero(is_near) > _MOST_KEPT * len(words):
        return Excerpt(values=np.frombuffer(packed.translate(_PACKED_READINGS), np.uint8))
    # Where blocks are left out, sixteen characters without a digit meet: no seed and no hex is
    # made there that was not in the text.
    blocks = np.flatnonzero(is_near)
    kept = words.take(blocks, mode="clip").tobytes()
    return Excerpt(values=np.frombuffer(kept.translate(_PACKED_READINGS), np.uint8), blocks=blocks)


def base64_candidates(roles: Bytes) -> Places:
    """Answer where groups stand that are base 64 of letters and digits, for any alignment."""
    return np.flatnonzero(_base64_marks(roles))


def hex_candidates(nibbles: Bytes) -> Places:
    """Answer where pairs stand that are the hex of letters and digits, for either alignment."""
    return np.flatnonzero(_hex_marks(nibbles))


def _base64_marks(roles: Bytes) -> Marks:
    if len(roles) < _GROUP * BASE64_GROUPS:
        return np.zeros(0, np.bool_)
    # From the last place on, each shifted by one for those that stand before it.
    group = roles[3:] >> 1
    for place in (2, 1):
        group &= roles[place : place - 3]
        group >>= 1
    group &= roles[:-3]
    group &= 1
    eights = group[:-4] & group[4:]
    return (eights[:-8] & eights[8:]).view(np.bool_)


def _hex_marks(nibbles: Bytes) -> Marks:
    if len(nibbles) < 2 * HEX_PAIRS:
        return np.zeros(0, np.bool_)
    pair = nibbles[:-1] - np.uint8(_FIRST_NIBBLE) < _FIRST_NIBBLES
    pair &= nibbles[1:] < _NIBBLES
    # Two pairs, four, eight, and eight of which four are counted twice.
    for step in (2, 4, 8, 8):
        pair = pair[:-step] & pair[step:]
    return pair


def _may_be_hex_between_x(packed: Bytes, excerpt: Excerpt) -> bool:
    """Answer whether a candidate of hex may hold an x or 0x, which are left out of it."""
    places = np.flatnonzero(excerpt.values == _X)
    if len(places) * _MANY_EVERY > len(packed):
        return True
    # One of the x in a candidate is near a digit. How far it goes is seen in the whole text.
    places = excerpt.origins(places)
    for side in (1, -1):
        beside = _READINGS.take(packed.take(places + side, mode="clip"), mode="clip")
        places = places[(beside < _NIBBLES) | (beside == _X)]
    if not len(places):
        return False
    reached = _reach_of_hex(packed, places, 1) + _reach_of_hex(packed, places, -1)
    return bool((reached >= 2 * HEX_PAIRS).any())


def _reach_of_hex(packed: Bytes, places: Places, side: int) -> Places:
    """Answer how far at most a candidate goes on one side of each x; beyond another x, all of it.

    Of its digits every second one is the first of a pair. Before an x there may be a nought that
    is left out, so what is next to the x may be of either kind.
    """
    beside = _READINGS.take(
        packed.take(places[:, None] + _DISTANCES * side, mode="clip"), mode="clip"
    )
    is_first = beside - np.uint8(_FIRST_NIBBLE) < _FIRST_NIBBLES
    beyond = np.logical_or.accumulate(beside == _X, axis=1)
    reached = np.zeros(len(places), np.intp)
    for is_free in _FREE:
        fits = (beside < _NIBBLES) & (is_first | is_free) | beyond
        fits[:, -1] = False
        np.maximum(reached, fits.argmin(axis=1), out=reached)
    return reached
