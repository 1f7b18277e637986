"""Markers: short codes that name the tenant, the request and the page that they were planted in."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Crockford's base 32: no I, L, O, U. Source: detection.md A3, 5 bits a character.
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#: 120 bits. Source: detection.md A3, enough for 1e9 live markers in an answer of 1 MB.
MARKER_CHARACTERS = 24
#: Shortest fragment that is evidence by itself: 100 bits, 74 net. Source: detection.md A3.
FRAGMENT_CHARACTERS = 20

TENANT_BITS = 20
REQUEST_BITS = 24
PAGE_BITS = 21
TAG_BITS = 55

_PAYLOAD_BITS = TENANT_BITS + REQUEST_BITS + PAGE_BITS
_HALF_BITS = (_PAYLOAD_BITS + TAG_BITS) // 2
_HALF_MASK = (1 << _HALF_BITS) - 1
_HALF_BYTES = 8
_BITS_A_CHARACTER = 5
_WHITENING_ROUNDS = 4

_VALUES = {character: value for value, character in enumerate(ALPHABET)}
#: Every ASCII character as the alphabet would write it: upper case, and O, I, L as Crockford reads
#: them. One character stays one character, so that offsets hold.
_AS_WRITTEN = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzILO",
    "ABCDEFGH1JK1MN0PQRSTUVWXYZ110",
)
_RUN = re.compile(f"[{ALPHABET}]{{{FRAGMENT_CHARACTERS},}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Where a code was planted: tenant by number, request by nonce, page by index in its prompt."""

    tenant: int
    request: int
    page: int


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


class MarkerKey:
    """Writes and reads codes under one secret; a code of another secret reads as nothing.

    The payload and its authentication tag are whitened by a keyed Feistel network over all 120
    bits, so that codes of neighbouring pages share no recognisable part and a fragment names its
    page as well as the whole does. Source: detection.md A4.
    """

    def __init__(self, secret: bytes) -> None:
        self._tag_key = hmac.digest(secret, b"pagewarden marker tag", "sha256")
        self._round_keys = tuple(
            hmac.digest(secret, b"pagewarden marker whitening %d" % index, "sha256")
            for index in range(_WHITENING_ROUNDS)
        )

    def write(self, marker: Marker) -> str:
        """Answer the code of a marker. Raises ValueError where a field does not fit its bits."""
        payload = _pack(marker)
        return _spell(self._whiten((payload << TAG_BITS) | self._tag(payload)))

    def read(self, code: str) -> Marker | None:
        """Answer the marker of a whole code in any case, or None where it is not one of ours."""
        number = _unspell(code.translate(_AS_WRITTEN))
        if number is None:
            return None
        plain = self._unwhiten(number)
        payload = plain >> TAG_BITS
        if self._tag(payload) != plain & ((1 << TAG_BITS) - 1):
            return None
        return _unpack(payload)

    def _tag(self, payload: int) -> int:
        body = payload.to_bytes((_PAYLOAD_BITS + 7) // 8, "big")
        digest = hmac.digest(self._tag_key, body, "sha256")
        return int.from_bytes(digest[:7], "big") >> (56 - TAG_BITS)

    def _whiten(self, number: int) -> int:
        left, right = number >> _HALF_BITS, number & _HALF_MASK
        for key in self._round_keys:
            left, right = right, left ^ _mix(key, right)
        return (left << _HALF_BITS) | right

    def _unwhiten(self, number: int) -> int:
        left, right = number >> _HALF_BITS, number & _HALF_MASK
        for key in reversed(self._round_keys):
            left, right = right ^ _mix(key, left), left
        return (left << _HALF_BITS) | right


class MarkerIndex:
    """Finds codes in any text: whole ones of this secret, and fragments of those that it was told.

    A whole code needs no entry (its tag proves it), so codes of an earlier round are found too.
    """

    def __init__(self, key: MarkerKey, planted: Iterable[Marker] = ()) -> None:
        self._key = key
        self._windows: dict[str, tuple[Marker, str, int]] = {}
        for marker in planted:
            self.add(marker)

    def add(self, marker: Marker) -> str:
        """Answer the code of a marker, and from now on know it by its fragments."""
        code = self._key.write(marker)
        for start in range(MARKER_CHARACTERS - FRAGMENT_CHARACTERS + 1):
            self._windows[code[start : start + FRAGMENT_CHARACTERS]] = (marker, code, start)
        return code

    def search(self, text: str) -> tuple[Hit, ...]:
        """Answer every marker in a text, in order of place. Never raises on any text."""
        written = text.translate(_AS_WRITTEN)
        return tuple(hit for run in _RUN.finditer(written) for hit in self._search_run(run))

    def _search_run(self, run: re.Match[str]) -> Iterator[Hit]:
        letters, at = run.group(), 0
        while at + FRAGMENT_CHARACTERS <= len(letters):
            found = self._whole_at(letters, at) or self._fragment_at(letters, at)
            if found is None:
                at += 1
                continue
            marker, length = found
            yield Hit(marker=marker, offset=run.start() + at, length=length)
            at += length

    def _whole_at(self, letters: str, at: int) -> tuple[Marker, int] | None:
        if at + MARKER_CHARACTERS > len(letters):
            return None
        marker = self._key.read(letters[at : at + MARKER_CHARACTERS])
        return None if marker is None else (marker, MARKER_CHARACTERS)

    def _fragment_at(self, letters: str, at: int) -> tuple[Marker, int] | None:
        entry = self._windows.get(letters[at : at + FRAGMENT_CHARACTERS])
        if entry is None:
            return None
        marker, code, start = entry
        length = FRAGMENT_CHARACTERS
        while (
            start + length < MARKER_CHARACTERS
            and at + length < len(letters)
            and letters[at + length] == code[start + length]
        ):
            length += 1
        return marker, length


def as_written(text: str) -> str:
    """Answer a text as the alphabet would write it, character for character."""
    return text.translate(_AS_WRITTEN)


def derive_request(seed: bytes, ordinal: int) -> int:
    """Answer the nonce of the request with this number in a round of this seed."""
    digest = hmac.digest(seed, b"pagewarden request %d" % ordinal, "sha256")
    return int.from_bytes(digest[:3], "big")


def name_request(request: int) -> str:
    """Answer a request's nonce as pages and rows show it."""
    return f"{request:06x}"


def _mix(key: bytes, half: int) -> int:
    block = half.to_bytes(_HALF_BYTES, "big")
    digest = hashlib.blake2b(block, key=key, digest_size=_HALF_BYTES).digest()
    return int.from_bytes(digest, "big") & _HALF_MASK


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
        payload = (payload << bits) | value
    return payload


def _unpack(payload: int) -> Marker:
    return Marker(
        tenant=payload >> (REQUEST_BITS + PAGE_BITS),
        request=(payload >> PAGE_BITS) & ((1 << REQUEST_BITS) - 1),
        page=payload & ((1 << PAGE_BITS) - 1),
    )


def _spell(number: int) -> str:
    shifts = range(_BITS_A_CHARACTER * (MARKER_CHARACTERS - 1), -1, -_BITS_A_CHARACTER)
    return "".join(ALPHABET[(number >> shift) & (len(ALPHABET) - 1)] for shift in shifts)


def _unspell(code: str) -> int | None:
    if len(code) != MARKER_CHARACTERS:
        return None
    number = 0
    for character in code:
        value = _VALUES.get(character)
        if value is None:
            return None
        number = (number << _BITS_A_CHARACTER) | value
    return number
