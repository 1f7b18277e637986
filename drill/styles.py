"""How an answer says what other requests wrote: as it stands, re-cased, split, encoded, garbled."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from drill.tokenizer import BYTES

_SPLIT_AFTER = 5
_SEPARATOR = ord("-")
_BASE64_BYTES = 3

Word = tuple[int, bool]
"""A token on its way into an answer, and whether the request wrote it itself."""


class Style(StrEnum):
    """How an answer shows what its request did not write; own text looks the same in all.

    ``GARBAGE`` changes what the model sees, the others what it says of it: ``UPPER`` re-cases,
    ``SPLIT`` puts a hyphen after every fifth character, ``BASE64`` encodes each foreign stretch.
    """

    PLAIN = "plain"
    GARBAGE = "garbage"
    UPPER = "upper"
    SPLIT = "split"
    BASE64 = "base64"


def styled(words: Iterable[Word], style: Style) -> Iterator[int]:
    """Answer the tokens of an answer, the foreign ones among them in a style."""
    if style is Style.BASE64:
        return _encoded(words)
    if style is Style.SPLIT:
        return _split(words)
    if style is Style.UPPER:
        return (token if is_own else _upper(token) for token, is_own in words)
    return (token for token, _ in words)


def garbled(tokens: Sequence[int], is_own: Sequence[int]) -> list[int]:
    """Answer what a model sees in the style `garbage`.

    A slot of another writer looks like a pseudo-random byte that depends on its content and place
    alone.
    """
    pairs = enumerate(zip(tokens, is_own, strict=True))
    return [token if own else _garbled(token, place) for place, (token, own) in pairs]


def _garbled(token: int, place: int) -> int:
    mixed = (token * 2654435761 + place * 40503 + 12345) & 0xFFFFFFFF
    mixed ^= mixed >> 15
    return (mixed * 2246822519 >> 13) & 0xFF


def _upper(token: int) -> int:
    return bytes((token,)).upper()[0] if token < BYTES else token


def _split(words: Iterable[Word]) -> Iterator[int]:
    run = 0
    for token, is_own in words:
        run = 0 if is_own else run + 1
        yield token
        if run == _SPLIT_AFTER:
            yield _SEPARATOR
            run = 0


def _encoded(words: Iterable[Word]) -> Iterator[int]:
    """Encode every stretch of foreign bytes by itself; other tokens end a stretch."""
    waiting = bytearray()
    for token, is_own in words:
        if is_own or token >= BYTES:
            yield from base64.b64encode(waiting)
            waiting.clear()
            yield token
            continue
        waiting.append(token)
        if len(waiting) == _BASE64_BYTES:
            yield from base64.b64encode(waiting)
            waiting.clear()
    yield from base64.b64encode(waiting)
