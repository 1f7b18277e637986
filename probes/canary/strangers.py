"""Finds codes that others made up in answers that others kept: no tag, so the text alone counts."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_NOT_WORD: Final = re.compile(r"[\W_]+")
#: A shorter code can stand in any text by chance, so it counts only as the whole answer.
_SHORTEST: Final = 5
#: So many words a code's pieces may be apart, and such a share of its characters must be there.
_SPAN_WORDS: Final = 8
_SHARE: Final = 0.6
_LEAST_PIECES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A code that somebody planted: in which tenant's which request."""

    text: str
    tenant: str
    request: str
    page: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A code in a text: where (characters), looked at how, and whether only pieces of it."""

    code: Code
    offset: int
    length: int
    view: str
    is_in_pieces: bool = False


def find_codes(codes: Sequence[Code], text: str) -> Iterator[Found]:
    """Answer every code that is in a text, at most once each; never raises."""
    folded = text.casefold()
    bare = _NOT_WORD.sub("", folded)
    for code in codes:
        found = _find(code, text, folded, bare)
        if found is not None:
            yield found


def holds(text: str, code: str) -> bool:
    """Answer whether a text holds a code whole, however it is written or parted."""
    one = Code(text=code, tenant="", request="")
    return any(not found.is_in_pieces for found in find_codes([one], text))


def _find(code: Code, text: str, folded: str, bare: str) -> Found | None:
    wanted = code.text.casefold().strip()
    core = _NOT_WORD.sub("", wanted)
    if not core:
        return None
    if len(core) < _SHORTEST:
        return _found(code, 0, len(text), "plain") if bare == core else None
    at = folded.find(wanted)
    if at >= 0:
        return _found(code, at, len(wanted), "plain")
    view = _whole_view(code.text.strip(), core, bare, text)
    return _found(code, 0, len(text), view) if view else _pieces(code, wanted, text)


def _whole_view(code: str, core: str, bare: str, text: str) -> str:
    """Answer how a text must be looked at to show a code whole, or nothing where none does."""
    if core in bare:
        return "split"
    if core[::-1] in bare:
        return "reversed"
    return "encoded" if _is_encoded(code, text) else ""


def _found(code: Code, offset: int, length: int, view: str) -> Found:
    return Found(code=code, offset=offset, length=length, view=view)


def _is_encoded(code: str, text: str) -> bool:
    """Answer whether a text holds a code in hex, or in base64 at any offset."""
    raw = code.encode()
    if raw.hex() in _NOT_WORD.sub("", text.casefold()):
        return True
    solid = text.replace("-", "+").replace("_", "/").replace("\n", "").replace("\r", "")
    return any(_middle(raw, shift) in solid for shift in range(3))


def _middle(raw: bytes, shift: int) -> str:
    """Answer the base64 characters that depend on nothing but the code itself."""
    encoded = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
    first = -(-shift * 8 // 6)
    last = (shift + len(raw)) * 8 // 6
    return encoded[first:last]


def _pieces(code: Code, wanted: str, text: str) -> Found | None:
    """Answer most of a code's pieces near to each other, in any order."""
    pieces = _WORD.findall(wanted)
    words = list(_WORD.finditer(text.casefold()))
    if len(pieces) < _LEAST_PIECES:
        return None
    for start in range(len(words)):
        near = words[start : start + _SPAN_WORDS]
        solid = "".join(word.group() for word in near)
        there = [piece for piece in pieces if piece in solid]
        share = sum(map(len, there)) / sum(map(len, pieces))
        if len(there) >= _LEAST_PIECES and share >= _SHARE:
            begin, end = near[0].start(), near[-1].end()
            return Found(
                code=code, offset=begin, length=end - begin, view="pieces", is_in_pieces=True
            )
    return None
