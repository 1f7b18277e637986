"""The copying model: it repeats and continues what its pages hold, and obeys their asks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drill.pool import UNWRITTEN
from drill.styles import Style, Word, garbled, styled
from drill.tokenizer import BYTES

NOTHING_TO_SAY = ord(" ")
"""What the model says when it sees nothing that can be repeated."""

_ASK = re.compile(rb"(?i:repeat this code exactly:)\s*([0-9A-Z-]+)")
_LONG_WORD = re.compile(rb"[0-9A-Za-z_-]{8,}")
_DIGITS = frozenset(b"0123456789")
_CODES_ANSWERED = 6
_LONGEST_TAIL = 64
_SHORTEST_TAIL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a reader makes of attended slots, and which of them it wrote itself.

    Shape: `tokens` and `is_own` have one entry a slot that was ever written, in order.
    """

    tokens: Sequence[int]
    is_own: Sequence[int]

    @classmethod
    def own(cls, tokens: Sequence[int]) -> View:
        """Answer the view of a reader that wrote all of it."""
        return cls(tokens=tokens, is_own=b"\x01" * len(tokens))


def visible(tokens: Sequence[int], writers: Sequence[int], *, reader: int, style: Style) -> View:
    """Answer what a reader makes of attended slots; slots never written say nothing."""
    is_own = bytes(
        writer == reader
        for token, writer in zip(tokens, writers, strict=True)
        if token != UNWRITTEN
    )
    written = [token for token in tokens if token != UNWRITTEN]
    if style is Style.GARBAGE:
        written = garbled(written, is_own)
    return View(tokens=written, is_own=is_own)


class Speaker:
    """Says one token after the other about what it sees; the same view gives the same speech."""

    def __init__(self, view: View, style: Style = Style.PLAIN) -> None:
        self._speech = styled(_words(view), style)
        self._held: int | None = None

    def skip(self, token: int) -> None:
        """Drop the first word of the speech if another node has said it already."""
        first = self.next()
        self._held = None if first == token else first

    def next(self) -> int:
        """Answer the next token."""
        token, self._held = self._held, None
        return next(self._speech) if token is None else token


def _words(view: View) -> Iterator[Word]:
    """Answer an endless speech: the opening, then the view from some place on, round and round."""
    seen, is_own = view.tokens, view.is_own
    text = bytes(token if token < BYTES else 0 for token in seen)
    if not text.strip(b"\x00 "):
        while True:
            yield NOTHING_TO_SAY, True
    opening, pointer = _opening(text)
    for place in opening:
        yield (ord("\n"), True) if place is None else (seen[place], bool(is_own[place]))
    while True:
        pointer = pointer if pointer < len(seen) else 0
        yield seen[pointer], bool(is_own[pointer])
        pointer += 1


def _opening(text: bytes) -> tuple[list[int | None], int]:
    """Answer the places to speak of first, None for a line's end, and where to go on copying.

    Asks come before all else, the last first. Without an ask the model dwells on the last word that
    looks like a code, else goes on where the end of the text stood before, else at the beginning.
    """
    asks = list(_ASK.finditer(text))
    if asks:
        codes: dict[bytes, int] = {}
        for ask in reversed(asks):
            codes.setdefault(ask.group(1), ask.start(1))
        first = list(codes.items())[:_CODES_ANSWERED]
        lines = [[*range(start, start + len(code)), None] for code, start in first]
        return [place for line in lines for place in line], asks[-1].end()
    codes_at = [word.start() for word in _LONG_WORD.finditer(text) if _is_code(word.group())]
    return [], codes_at[-1] if codes_at else _after_earlier_tail(text)


def _is_code(word: bytes) -> bool:
    digits = sum(letter in _DIGITS for letter in word)
    return 0 < digits < len(word)


def _after_earlier_tail(text: bytes) -> int:
    for size in range(min(_LONGEST_TAIL, len(text) // 2), _SHORTEST_TAIL - 1, -1):
        found = text.rfind(text[-size:], 0, len(text) - 1)
        if found >= 0:
            return found + size
    return 0
