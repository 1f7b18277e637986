"""Writes and reads codes under one secret: whitened, authenticated, told apart from any text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from probes.marking.alphabet import (
    ALPHABET,
    BITS_A_CHARACTER,
    MARKER_CHARACTERS,
    Places,
    read_text,
)

Numbers = NDArray[np.uint64]

TENANT_BITS: Final = 20
REQUEST_BITS: Final = 24
PAGE_BITS: Final = 21
#: Authentication: a keyed BLAKE2b, and a check by which many codes can be tried at once.
CHECK_BITS: Final = 15
TAG_BITS: Final = 34
#: Which of 64 spellings: the first in which every seed can be told from prose. One fits in four.
VARIANT_BITS: Final = 6
#: What proves a code that nobody was told of.
PROOF_BITS: Final = CHECK_BITS + TAG_BITS

#: Windows of a code by which it is found. Every run of ten characters holds one of them, and no
#: two changed characters break all. The same seen from either end.
SEEDS: Final = (0, 3, 5, 8, 11, 13, 16)
SEED_CHARACTERS: Final = 8
#: In a seed a letter and a digit (2 to 9, which no letter is taken for) stand side by side at least
#: twice. Few windows of prose or of columns of figures do: most text is never looked up.
LEAST_TURNS: Final = 2
FIRST_DIGIT: Final = 2
FIRST_LETTER: Final = 10

_PAYLOAD_BITS: Final = TENANT_BITS + REQUEST_BITS + PAGE_BITS
_BITS: Final = BITS_A_CHARACTER * MARKER_CHARACTERS
_TAG: Final = (1 << TAG_BITS) - 1
_LEFT_BITS: Final = 53
_RIGHT_BITS: Final = _BITS - CHECK_BITS - _LEFT_BITS
_RIGHT: Final = (1 << _RIGHT_BITS) - 1
#: The check is the last three characters: the low bits of the three highest bytes of a sum.
CHECK_CHARACTERS: Final = CHECK_BITS // BITS_A_CHARACTER
_CHECK: Final = 0x1F1F1F << 40
_CHECKED_END: Final = (1 << 40) - 1
_WORD_BITS: Final = 64
_WORD_BYTES: Final = 8
_WORD: Final = (1 << _WORD_BITS) - 1
#: Each changes both halves.
_ROUNDS: Final = 2
_FOLD: Final = 32
_PAIRS: Final = tuple(
    bytes((one, other)) for one in range(len(ALPHABET)) for other in range(len(ALPHABET))
)
_LETTERS: Final = ALPHABET.encode() + bytes(256 - len(ALPHABET))
_PAIR_BITS: Final = 2 * BITS_A_CHARACTER
_AS_DIGITS: Final = str.maketrans(
    {letter: str(int(FIRST_DIGIT <= value < FIRST_LETTER)) for value, letter in enumerate(ALPHABET)}
)
_AS_LETTERS: Final = str.maketrans(
    {letter: str(int(value >= FIRST_LETTER)) for value, letter in enumerate(ALPHABET)}
)
_TURNS_MASK: Final = (1 << (SEED_CHARACTERS - 1)) - 1
_SEED_SHIFTS: Final = tuple(MARKER_CHARACTERS - SEED_CHARACTERS - at for at in SEEDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Where a code was planted: tenant by number, request by nonce, page by index in its prompt."""

    tenant: int
    request: int
    page: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Many candidates for a code: characters 0 to 7, 8 to 15, 16 to 23 as one number each.

    A byte a character, the first the lowest. Shape: (n,) each.
    """

    begin: Numbers
    middle: Numbers
    end: Numbers

    @property
    def turned(self) -> Parts:
        """Answer the parts of the same codes read backward."""
        return Parts(
            begin=self.end.byteswap(), middle=self.middle.byteswap(), end=self.begin.byteswap()
        )


class MarkerKey:
    """Writes and reads codes under one secret; a code of another secret reads as nothing.

    Payload, tag and variant are whitened by a keyed Feistel network over 105 bits: codes of
    neighbouring pages share no recognisable part, and a fragment names its page as well as the
    whole does. Three characters more are a check on these, by which very many codes are tried at
    once. Both are made of multiplications; what keeps others from making codes is the tag.
    Source: detection.md A4.
    """

    def __init__(self, secret: bytes) -> None:
        self._tag_key = _derive(secret, b"tag", 32)
        stretch = _derive(secret, b"whitening", 16 * _ROUNDS)
        words = _odd_words(stretch)
        self._rounds = tuple(zip(words[::2], words[1::2], strict=True))
        self._check_keys = _odd_words(_derive(secret, b"check", 24))

    def write(self, marker: Marker) -> str:
        """Answer the code of a marker. Raises ValueError where a field does not fit its bits."""
        payload = _pack(marker)
        plain = (payload << TAG_BITS | self._tag(payload)) << VARIANT_BITS
        code = ""
        for variant in range(1 << VARIANT_BITS):
            values = self._with_check(_values_of(self._whiten(plain | variant) << CHECK_BITS))
            code = values.translate(_LETTERS).decode()
            if has_seeds(code):
                break
        return code

    def read(self, code: str) -> Marker | None:
        """Answer the marker of a whole code in any case, or None where it is not one of ours."""
        if len(code) != MARKER_CHARACTERS:
            return None
        values = read_text(code)
        if len(values) != MARKER_CHARACTERS or (values >= len(ALPHABET)).any():
            return None
        return self.read_values(values.tobytes())

    def read_values(self, values: bytes) -> Marker | None:
        """Answer the marker of 24 values of the alphabet, or None where they are not ours."""
        if self._with_check(values) != values:
            return None
        number = 0
        for value in values[:-CHECK_CHARACTERS]:
            number = number << BITS_A_CHARACTER | value
        plain = self._unwhiten(number) >> VARIANT_BITS
        payload = plain >> TAG_BITS
        return _unpack(payload) if self._tag(payload) == plain & _TAG else None

    def pass_check(self, parts: Parts) -> Places:
        """Answer which of many candidates pass the check: all of ours, and one in 2**15 others."""
        begin, middle, end = map(np.uint64, self._check_keys)
        differ = parts.begin * begin
        differ += parts.middle * middle
        differ += (parts.end & np.uint64(_CHECKED_END)) * end
        differ ^= parts.end
        differ &= np.uint64(_CHECK)
        return np.flatnonzero(differ == 0)

    def _with_check(self, values: bytes) -> bytes:
        """Answer the values with the last three as they must be."""
        begin, middle, end = (
            int.from_bytes(values[at : at + _WORD_BYTES], "little")
            for at in range(0, MARKER_CHARACTERS, _WORD_BYTES)
        )
        end &= _CHECKED_END
        keys = self._check_keys
        check = begin * keys[0] + middle * keys[1] + end * keys[2] & _CHECK
        return values[:-_WORD_BYTES] + (end | check).to_bytes(_WORD_BYTES, "little")

    def _tag(self, payload: int) -> int:
        body = payload.to_bytes((_PAYLOAD_BITS + 7) // 8, "big")
        digest = hashlib.blake2b(body, key=self._tag_key, digest_size=8).digest()
        return int.from_bytes(digest, "big") >> (_WORD_BITS - TAG_BITS)

    def _whiten(self, plain: int) -> int:
        left, right = plain >> _RIGHT_BITS, plain & _RIGHT
        for multiply, again in self._rounds:
            left ^= _mix(right, multiply, again) >> (_WORD_BITS - _LEFT_BITS)
            right ^= _mix(left, again, multiply) >> (_WORD_BITS - _RIGHT_BITS)
        return left << _RIGHT_BITS | right

    def _unwhiten(self, whitened: int) -> int:
        left, right = whitened >> _RIGHT_BITS, whitened & _RIGHT
        for multiply, again in reversed(self._rounds):
            right ^= _mix(left, again, multiply) >> (_WORD_BITS - _RIGHT_BITS)
            left ^= _mix(right, multiply, again) >> (_WORD_BITS - _LEFT_BITS)
        return left << _RIGHT_BITS | right


def has_seeds(code: str) -> bool:
    """Answer whether in every seed of a code letters and digits take turns as they must."""
    digits = int(code.translate(_AS_DIGITS), 2)
    letters = int(code.translate(_AS_LETTERS), 2)
    turns = digits & letters >> 1 | letters & digits >> 1
    for shift in _SEED_SHIFTS:
        found = turns >> shift & _TURNS_MASK
        # Two turns: one is left where the lowest is taken away.
        if not found & (found - 1):
            return False
    return True


def _derive(secret: bytes, purpose: bytes, size: int) -> bytes:
    key = hashlib.sha256(secret).digest()
    return hashlib.blake2b(b"pagewarden marker " + purpose, key=key, digest_size=size).digest()


def _odd_words(stretch: bytes) -> tuple[int, ...]:
    return tuple(
        int.from_bytes(stretch[at : at + 8], "big") | 1 for at in range(0, len(stretch), 8)
    )


def _mix(half: int, multiply: int, again: int) -> int:
    mixed = half * multiply & _WORD
    mixed = (mixed ^ mixed >> _FOLD) * again & _WORD
    return mixed ^ mixed >> _FOLD


def _pack(marker: Marker) -> int:
    fields = (
        ("tenant", marker.tenant, TENANT_BITS),
        ("request", marker.request, REQUEST_BITS),
        ("page", marker.page, PAGE_BITS),
    )
    payload = 0
    for name, value, bits in fields:
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{name} {value} does not fit the {bits} bits of a marker")
        payload = payload << bits | value
    return payload


def _unpack(payload: int) -> Marker:
    return Marker(
        tenant=payload >> (REQUEST_BITS + PAGE_BITS),
        request=(payload >> PAGE_BITS) & ((1 << REQUEST_BITS) - 1),
        page=payload & ((1 << PAGE_BITS) - 1),
    )


def _values_of(number: int) -> bytes:
    shifts = range(_BITS - _PAIR_BITS, -1, -_PAIR_BITS)
    return b"".join([_PAIRS[number >> shift & (len(_PAIRS) - 1)] for shift in shifts])
