"""The copying model: it repeats and continues what its pages hold, and obeys their asks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from drill.pool import UNWRITTEN
from drill.tokenizer import BYTES

NOTHING_TO_SAY = ord(" ")
"""What the model says when it sees nothing that can be repeated."""

_ASK = re.compile(rb"(?i:repeat this code exactly:)\s*([0-9A-Z-]+)")
_LONG_WORD = re.compile(rb"[0-9A-Za-z_-]{8,}")
_DIGITS = frozenset(b"0123456789")
_CODES_ANSWERED = 6
_LONGEST_TAIL = 64
_SHORTEST_TAIL = 3


class Style(StrEnum):
    """How slots look that the request did not write."""

    PLAIN = "plain"
    GARBAGE = "garbage"


def visible(
    tokens: Sequence[int], writers: Sequence[int], *, reader: int, style: Style
) -> list[int]:
    """Answer what a reader makes of attended slots; slots never written say nothing.

    In the style `garbage` a slot of another writer looks like a pseudo-random byte that depends on
    its content and place alone; slots of the reader look the same in both styles.
    """
    if style is Style.PLAIN:
        return [token for token in tokens if token != UNWRITTEN]
    return [
        token if writer == reader else _garbled(token, place)
        for place, (token, writer) in enumerate(zip(tokens, writers, strict=True))
        if token != UNWRITTEN
    ]


def _garbled(token: int, place: int) -> int:
    mixed = (token * 2654435761 + place * 40503 + 12345) & 0xFFFFFFFF
    mixed ^= mixed >> 15
    return (mixed * 2246822519 >> 13) & 0xFF


class Speaker:
    """Says one token after the other about what it sees; the same sight gives the same speech."""

    def __init__(self, seen: Sequence[int]) -> None:
        text = bytes(token if token < BYTES else 0 for token in seen)
        self._seen = seen if text.strip(b"\x00 ") else ()
        self._opening, self._pointer = _opening(text)

    def skip(self, token: int) -> None:
        """Drop the first word of the speech if another node has said it already."""
        opening, pointer = self._opening, self._pointer
        if self.next() != token:
            self._opening, self._pointer = opening, pointer

    def next(self) -> int:
        """Answer the next token."""
        if self._opening:
            token, self._opening = self._opening[0], self._opening[1:]
            return token
        if not self._seen:
            return NOTHING_TO_SAY
        if self._pointer >= len(self._seen):
            self._pointer = 0
        self._pointer += 1
        return self._seen[self._pointer - 1]


def _opening(text: bytes) -> tuple[bytes, int]:
    """Answer what to say first and where to go on copying.

    Asks come before all else, the last first. Without an ask the model dwells on the last word that
    looks like a code, else goes on where the end of the text stood before, else at the beginning.
    """
    asks = list(_ASK.finditer(text))
    if asks:
        codes = dict.fromkeys(ask.group(1) for ask in reversed(asks))
        return b"\n".join(list(codes)[:_CODES_ANSWERED]) + b"\n", asks[-1].end()
    codes_at = [word.start() for word in _LONG_WORD.finditer(text) if _is_code(word.group())]
    return b"", codes_at[-1] if codes_at else _after_earlier_tail(text)


def _is_code(word: bytes) -> bool:
    digits = sum(letter in _DIGITS for letter in word)
    return 0 < digits < len(word)


def _after_earlier_tail(text: bytes) -> int:
    for size in range(min(_LONGEST_TAIL, len(text) // 2), _SHORTEST_TAIL - 1, -1):
        found = text.rfind(text[-size:], 0, len(text) - 1)
        if found >= 0:
            return found + size
    return 0
