"""Word streams for pages too small for a code: every few words tell tenant, request and place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from probes.marking.alphabet import ALPHABET, BITS_A_CHARACTER, MARKER_CHARACTERS, Places
from probes.marking.code import PROOF_BITS, Marker, MarkerKey, Parts
from probes.marking.evidence import Effort, Finding, Found, View, space_bits, weigh
from probes.marking.lexicon import BITS_A_WORD, NUMBERS

#: A block of words is a code in other letters: 120 bits.
BLOCK_WORDS: Final = MARKER_CHARACTERS * BITS_A_CHARACTER // BITS_A_WORD
#: Words of a window by which a place is found: 40 bits.
WINDOW_WORDS: Final = 5

_WORD: Final = re.compile("[a-z]+")
_UNKNOWN: Final = -1
_VALUES: Final = {letter: value for value, letter in enumerate(ALPHABET)}
_TWENTY: Final = np.uint64(20)
_FIFTEEN: Final = np.uint64(15)


class WordStream:
    """The words of one request, in order: block after block, each block a code of its own number.

    Whitened as codes are, so any window of five words is as good as random: it stands at one place
    of one request. A whole block tells request and place without an index.
    """

    def __init__(self, secret: bytes, *, tenant: int, request: int) -> None:
        self._key = word_key(secret)
        self._tenant, self._request = tenant, request

    def numbers(self, count: int) -> list[int]:
        """Answer the numbers (in the lexicon) of the first so many words.

        Raises ValueError where the request or so long a stream does not fit a marker.
        """
        blocks = -(-count // BLOCK_WORDS)
        return [number for block in range(blocks) for number in self._block(block)][:count]

    def _block(self, block: int) -> bytes:
        marker = Marker(tenant=self._tenant, request=self._request, page=block)
        number = 0
        for letter in self._key.write(marker):
            number = number << BITS_A_CHARACTER | _VALUES[letter]
        return number.to_bytes(BLOCK_WORDS, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    """One request's stream: its windows in order of key, where each stands, the page of a word."""

    tenant: int
    request: int
    keys: NDArray[np.uint64]
    places: Places
    pages: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """The words of a text: number in the lexicon or -1, offset, end."""

    numbers: NDArray[np.int16]
    offsets: list[int]
    ends: list[int]


class WordIndex:
    """Finds words of live streams in any text, and whole blocks of any stream of its secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._key = word_key(secret)
        self._live: list[_Live] = []

    def add(self, *, tenant: int, request: int, pages: Sequence[int]) -> list[int]:
        """Answer the words to plant, by number; ``pages`` tells for each the page it begins in."""
        stream = WordStream(self._secret, tenant=tenant, request=request)
        numbers = stream.numbers(len(pages))
        keys = _keys_of(np.array(numbers, np.int16))
        order = np.argsort(keys, kind="stable")
        self._live.append(
            _Live(
                tenant=tenant,
                request=request,
                keys=keys[order],
                places=order,
                pages=np.array(pages, np.int64),
            )
        )
        return numbers

    def preview(self, *, tenant: int, request: int, count: int) -> list[int]:
        """Answer the first words of a stream, by number, without entering it."""
        return WordStream(self._secret, tenant=tenant, request=request).numbers(count)

    def find(self, text: str) -> Found:
        """Answer what a text holds of word streams, weighed; any case and any sign between words.

        ``page`` of a finding that no live stream explains is the number of its block.
        """
        said = _read(text)
        if len(said.numbers) < WINDOW_WORDS:
            return Found()
        known = said.numbers != _UNKNOWN
        is_window = np.convolve(known, np.ones(WINDOW_WORDS, np.int8), "valid") == WINDOW_WORDS
        places = np.flatnonzero(is_window)
        keys = _keys_of(said.numbers)
        total = sum(len(live.pages) for live in self._live)
        penalty = space_bits(len(said.numbers), total)
        findings = [one for live in self._live for one in _runs(live, said, places, keys, penalty)]
        blocks = _block_places(is_window)
        findings += self._proven(said, blocks, keys)
        effort = Effort(characters=len(text), windows=len(places), decodes=len(blocks))
        return weigh(findings, effort)

    def _proven(self, said: _Said, places: Places, keys: NDArray[np.uint64]) -> Iterator[Finding]:
        live = {(one.tenant, one.request) for one in self._live}
        net_bits = PROOF_BITS - space_bits(len(said.numbers))
        for row in self._key.pass_check(_parts_at(places, keys)).tolist():
            at = int(places[row])
            marker = self._key.read_values(_values(said.numbers[at : at + BLOCK_WORDS]))
            if marker is not None and (marker.tenant, marker.request) not in live:
                yield Finding(
                    marker=marker,
                    view=View.WORDS,
                    offset=said.offsets[at],
                    length=said.ends[at + BLOCK_WORDS - 1] - said.offsets[at],
                    characters=BLOCK_WORDS,
                    edits=0,
                    bits=float(PROOF_BITS),
                    net_bits=net_bits,
                    is_live=False,
                )


def word_key(secret: bytes) -> MarkerKey:
    """Answer the key of word streams: no block reads as a code, and no code as a block."""
    return MarkerKey(secret + b" in words")


def _read(text: str) -> _Said:
    # Lower case of a letter may be longer than it; then places would not hold.
    lowered = text.lower()
    lowered = lowered if len(lowered) == len(text) else text
    found = list(_WORD.finditer(lowered))
    numbers = [NUMBERS.get(one.group(), _UNKNOWN) for one in found]
    return _Said(
        numbers=np.array(numbers, np.int16),
        offsets=[one.start() for one in found],
        ends=[one.end() for one in found],
    )


def _keys_of(numbers: NDArray[np.int16]) -> NDArray[np.uint64]:
    """Answer each window of words as one number. Unknown words make keys that mean nothing."""
    bytes_ = (numbers & 0xFF).astype(np.uint64)
    count = max(0, len(numbers) - WINDOW_WORDS + 1)
    keys = np.zeros(count, np.uint64)
    for step in range(WINDOW_WORDS):
        keys <<= np.uint64(BITS_A_WORD)
        keys |= bytes_[step : step + count]
    return keys


def _runs(
    live: _Live, said: _Said, places: Places, keys: NDArray[np.uint64], penalty: float
) -> Iterator[Finding]:
    """Answer the longest runs in which a text follows a stream word by word."""
    if not len(live.keys):
        return
    wanted = keys[places]
    nearest = np.minimum(np.searchsorted(live.keys, wanted), len(live.keys) - 1)
    held = live.keys[nearest] == wanted
    here, there = places[held], live.places[nearest[held]]
    # A run goes on where both text and stream went on by one word.
    breaks = np.flatnonzero((np.diff(here) != 1) | (np.diff(there) != 1)) + 1
    for group, stream in zip(np.split(here, breaks), np.split(there, breaks), strict=True):
        if not len(group):
            continue
        words = len(group) + WINDOW_WORDS - 1
        first, bits = int(group[0]), float(BITS_A_WORD * words)
        yield Finding(
            marker=Marker(
                tenant=live.tenant, request=live.request, page=int(live.pages[stream[0]])
            ),
            view=View.WORDS,
            offset=said.offsets[first],
            length=said.ends[first + words - 1] - said.offsets[first],
            characters=words,
            edits=0,
            bits=bits,
            net_bits=bits - penalty,
            is_live=True,
        )


def _block_places(is_window: NDArray[np.bool_]) -> Places:
    """Answer where fifteen words in a row are of the lexicon."""
    count = len(is_window) - 2 * WINDOW_WORDS
    if count <= 0:
        return np.zeros(0, np.intp)
    whole = is_window[:count].copy()
    for step in (WINDOW_WORDS, 2 * WINDOW_WORDS):
        whole &= is_window[step : step + count]
    return np.flatnonzero(whole)


def _parts_at(places: Places, keys: NDArray[np.uint64]) -> Parts:
    """Answer blocks of three windows, 40 bits each, as the parts of codes."""
    begin, middle, end = (
        _spread(keys[places + step]) for step in (0, WINDOW_WORDS, 2 * WINDOW_WORDS)
    )
    return Parts(begin=begin, middle=middle, end=end)


def _spread(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Answer five bits a byte, the first character the lowest, of forty bits in order."""
    spread = np.zeros(len(keys), np.uint64)
    for character in range(BITS_A_WORD * WINDOW_WORDS // BITS_A_CHARACTER):
        value = keys >> np.uint64(35 - 5 * character) & np.uint64(31)
        spread |= value << np.uint64(8 * character)
    return spread


def _values(numbers: NDArray[np.int16]) -> bytes:
    number = int.from_bytes(bytes(numbers.tolist()), "big")
    shifts = range((MARKER_CHARACTERS - 1) * BITS_A_CHARACTER, -1, -BITS_A_CHARACTER)
    return bytes(number >> shift & (len(ALPHABET) - 1) for shift in shifts)
