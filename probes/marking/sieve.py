"""Tells before any work where a text can hold encoded codes at all; hyperscan where it runs."""

from __future__ import annotations

import re
import string
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

from probes.marking.evidence import View

try:
    import hyperscan

    HAS_HYPERSCAN = True
except ImportError:  # no wheel for this machine
    HAS_HYPERSCAN = False

#: Whole groups or pairs in a row that give an encoding away: twelve characters of a code.
BASE64_GROUPS: Final = 4
HEX_PAIRS: Final = 12
#: What may stand between characters of an encoding, and is left out.
BASE64_BETWEEN: Final = b" \t\r\n\v\f"
HEX_BETWEEN: Final = (
    b"".join(bytes([code]) for code in range(128) if not chr(code).isalnum()) + b"xX"
)

#: What may surround a candidate and still be of the code. Unit: characters, those between apart.
BASE64_AROUND: Final = 48
HEX_AROUND: Final = 80
_VIEWS: Final = (View.BASE64, View.HEX)
_REACHES: Final = (
    (BASE64_BETWEEN, BASE64_AROUND + 4 * BASE64_GROUPS),
    (HEX_BETWEEN, HEX_AROUND + 2 * HEX_PAIRS),
)
#: So many candidates, and one in so many characters more, are worth looking at one by one.
_FEW: Final = 16
_MANY_EVERY: Final = 512

_CODES: Final = string.digits + string.ascii_letters
_BASE64: Final = string.ascii_uppercase + string.ascii_lowercase + string.digits
_GROUP: Final = 4


def _role_letters(place: int) -> str:
    """Answer the characters that stand at a place of a group which encodes letters and digits."""
    sextets = set()
    for code in map(ord, _CODES):
        if place == 0:
            sextets.add(code >> 2)
        if place == 1:
            sextets.update((code & 3) << 4 | ord(after) >> 4 for after in _CODES)
        if place == 2:  # noqa: PLR2004 - the third of four
            sextets.update((code & 15) << 2 | ord(after) >> 6 for after in _CODES)
        if place == _GROUP - 1:
            sextets.add(code & 63)
    return "".join(letter for value, letter in enumerate(_BASE64) if value in sextets)


_ROLE_LETTERS: Final = tuple(map(_role_letters, range(_GROUP)))
#: For every byte the places of a group that it can stand at, a bit each.
ROLES: Final = bytes(
    sum(1 << place for place in range(_GROUP) if chr(code) in _ROLE_LETTERS[place])
    for code in range(256)
)


#: From where to where in a text an encoding is to be looked for.
Region = tuple[int, int]


class Sieve(Protocol):
    """Answers which parts of a text to look into for each encoding."""

    def regions_in(self, raw: bytes) -> Mapping[View, Sequence[Region]]:
        """Answer the regions by view, in order and apart; what is in none holds no code."""
        ...


class Portable:
    """Looks into the whole text for every encoding: each looks for its own candidates first."""

    def regions_in(self, raw: bytes) -> Mapping[View, Sequence[Region]]:
        """Answer the whole text."""
        return {view: [(0, len(raw))] for view in _VIEWS}


class Hyperscan:
    """Runs one automaton over the text that tells where candidates are.

    Its patterns are the shapes of encoded codes, not the codes: it is compiled once, in
    milliseconds, whatever number of markers is live.
    """

    def __init__(self) -> None:
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[_base64_shape(), _hex_shape()],
            ids=[0, 1],
            elements=2,
            flags=[hyperscan.HS_FLAG_DOTALL] * 2,
        )
        self._own = threading.local()

    def regions_in(self, raw: bytes) -> Mapping[View, Sequence[Region]]:
        """Answer what is around candidates, or the whole text where they are very many."""
        ends: tuple[list[int], list[int]] = ([], [])
        most = _FEW + len(raw) // _MANY_EVERY

        def matched(number: int, _start: int, end: int, *_rest: object) -> bool:
            ends[number].append(end)
            return len(ends[number]) > most

        # A scratch serves one scan at a time, and a scan leaves other threads run.
        if not hasattr(self._own, "scratch"):
            self._own.scratch = hyperscan.Scratch(self._database)
        try:
            self._database.scan(raw, match_event_handler=matched, scratch=self._own.scratch)
        except hyperscan.ScanTerminated:
            return Portable().regions_in(raw)
        return {
            view: _regions(raw, of_view, between, reach)
            for view, of_view, (between, reach) in zip(_VIEWS, ends, _REACHES, strict=True)
        }


def _regions(raw: bytes, ends: list[int], between: bytes, reach: int) -> list[Region]:
    """Answer what is within reach of the ends of candidates, not counting what is between."""
    letters = _class_of(between).replace("[", "[^", 1)
    step = f"{_class_of(between)}*{letters}"
    up_to_all = re.compile(f"(?:{step}){{0,{reach}}}".encode())
    regions: list[Region] = []
    for first, last in _clusters(ends, reach):
        found = up_to_all.match(raw, last)
        end = last if found is None else found.end()
        start = first - _reach_back(raw, first, step, reach)
        if regions and start <= regions[-1][1]:
            start = regions.pop()[0]
        regions.append((start, end))
    return regions


def _clusters(ends: list[int], reach: int) -> Iterator[Region]:
    """Answer first and last of candidates that are surely in reach of each other."""
    cluster: Region | None = None
    for end in ends:
        if cluster is not None and end - cluster[1] <= reach:
            cluster = cluster[0], end
            continue
        if cluster is not None:
            yield cluster
        cluster = end, end
    if cluster is not None:
        yield cluster


def _reach_back(raw: bytes, at: int, step: str, reach: int) -> int:
    """Answer how far back one has to go to leave so many characters behind."""
    all_of_them = re.compile(f"(?:{step}){{{reach}}}".encode())
    size = 2 * reach
    while size < at:
        found = all_of_them.match(raw[at - size : at][::-1])
        if found is not None:
            return found.end()
        size *= 4
    return at


@cache
def best_sieve() -> Sieve:
    """Answer the fastest that runs here."""
    return Hyperscan() if HAS_HYPERSCAN else Portable()


def _class_of(codes: Iterable[int]) -> str:
    return "[" + "".join(f"\\x{code:02x}" for code in codes) + "]"


def _base64_shape() -> bytes:
    between = _class_of(BASE64_BETWEEN)
    group = "".join(f"{_class_of(letters.encode())}{between}*" for letters in _ROLE_LETTERS)
    return f"(?:{group}){{{BASE64_GROUPS}}}".encode()


def _hex_shape() -> bytes:
    between = _class_of(HEX_BETWEEN)
    between = f"{between}*(?:0[xX]{between}*)?"
    return f"(?:[3-7]{between}[0-9A-Fa-f]{between}){{{HEX_PAIRS}}}".encode()
