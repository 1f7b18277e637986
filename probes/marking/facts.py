"""Invented facts: names and figures that stand nowhere else, and outlive a paraphrase."""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from probes.marking.code import Marker
from probes.marking.evidence import Effort, Finding, Found, View, space_bits, weigh

#: Parts of one fact stand close together, in any order. Unit: words and figures.
REACH: Final = 32
NAMES: Final = 3

_CONSONANTS: Final = "bcdfghjklmnprstvwxyz"
_VOWELS: Final = "aeiou"
_SYLLABLES: Final = tuple(one + other for one in _CONSONANTS for other in _VOWELS)
_SYLLABLES_A_NAME: Final = 4
_NAME_LETTERS: Final = 2 * _SYLLABLES_A_NAME
_NAMES: Final = len(_SYLLABLES) ** _SYLLABLES_A_NAME
_LANTERNS: Final = range(100_000, 1_000_000)
_HOUSES: Final = range(1_000, 10_000)
#: A word, or a figure with or without signs between its thousands.
_TOKEN: Final = re.compile(r"[a-z]+|\d+(?:[,.' \u00a0\u202f]\d{3})*(?!\d)|\d+")
_NO_DIGIT: Final = re.compile(r"\D")
_PART_BITS: Final = (
    *(math.log2(_NAMES) for _ in range(NAMES)),
    math.log2(len(_LANTERNS)),
    math.log2(len(_HOUSES)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A person, a town and two figures that belong to one page. Names are in lower case."""

    names: tuple[str, str, str]
    lanterns: int
    house: int

    @property
    def sentence(self) -> str:
        """Answer the fact as a prompt says it."""
        given, family, town = (name.capitalize() for name in self.names)
        return f"{given} {family} of {town} keeps {self.lanterns:,} lanterns in house {self.house}."

    @property
    def parts(self) -> tuple[str, ...]:
        """Answer what is looked for: names, then figures."""
        return (*self.names, str(self.lanterns), str(self.house))


def fact_of(secret: bytes, marker: Marker) -> Fact:
    """Answer the fact of a page, the same whenever it is asked for."""
    key = hashlib.sha256(b"pagewarden fact" + secret).digest()
    page = f"{marker.tenant}/{marker.request}/{marker.page}".encode()
    number = int.from_bytes(hashlib.blake2b(page, key=key, digest_size=40).digest(), "big")
    names = []
    for _ in range(NAMES):
        number, name = divmod(number, _NAMES)
        names.append(_name_of(name))
    number, lanterns = divmod(number, len(_LANTERNS))
    house = number % len(_HOUSES)
    given, family, town = names
    return Fact(names=(given, family, town), lanterns=_LANTERNS[lanterns], house=_HOUSES[house])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """A word or figure of a text, as facts write them."""

    text: str
    offset: int
    end: int


class FactIndex:
    """Finds live facts in any text by names and figures, however they are put."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._facts: dict[Marker, Fact] = {}
        self._named: dict[str, list[Marker]] = defaultdict(list)

    def add(self, marker: Marker) -> Fact:
        """Answer the fact of a page, and from now on know it."""
        fact = self._facts.get(marker)
        if fact is None:
            fact = self._facts[marker] = fact_of(self._secret, marker)
            for name in fact.names:
                self._named[name].append(marker)
        return fact

    def find(self, text: str) -> Found:
        """Answer which facts a text speaks of, weighed by the parts that are there."""
        said = list(_read(text)) if self._facts else []
        where: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(said):
            where[one.text].append(place)
        named = {
            marker: None
            for word in where
            if len(word) == _NAME_LETTERS
            for marker in self._named.get(word, ())
        }
        findings = [self._weigh(marker, said, where) for marker in named]
        effort = Effort(characters=len(text), windows=len(said), seeds=len(named))
        return weigh(findings, effort)

    def _weigh(self, marker: Marker, said: Sequence[_Said], where: dict[str, list[int]]) -> Finding:
        parts = self._facts[marker].parts
        places = sorted(
            (place, part) for part, text in enumerate(parts) for place in where.get(text, ())
        )
        first, last, found = _closest(places)
        bits = sum(_PART_BITS[part] for part in found)
        # Every part but the first may stand at any place in reach.
        penalty = space_bits(len(said), len(self._facts)) + (len(found) - 1) * math.log2(REACH)
        offset = said[first].offset
        return Finding(
            marker=marker,
            view=View.FACT,
            offset=offset,
            length=said[last].end - offset,
            characters=len(found),
            edits=len(parts) - len(found),
            bits=bits,
            net_bits=bits - penalty,
            is_live=True,
        )


def _closest(places: Sequence[tuple[int, int]]) -> tuple[int, int, frozenset[int]]:
    """Answer from where to where most bits of a fact stand in reach of each other."""
    best = (0.0, 0, 0, frozenset[int]())
    first = 0
    counts: dict[int, int] = defaultdict(int)
    for last, part in places:
        counts[part] += 1
        while last - places[first][0] >= REACH:
            counts[places[first][1]] -= 1
            first += 1
        found = frozenset(one for one, count in counts.items() if count)
        bits = sum(_PART_BITS[one] for one in found)
        if bits > best[0]:
            best = (bits, places[first][0], last, found)
    return best[1:]


def _read(text: str) -> Iterator[_Said]:
    lowered = text.lower()
    lowered = lowered if len(lowered) == len(text) else text
    for one in _TOKEN.finditer(lowered):
        token = one.group()
        if not token[0].isalpha():
            token = _NO_DIGIT.sub("", token)
        yield _Said(text=token, offset=one.start(), end=one.end())


def _name_of(number: int) -> str:
    letters = []
    for _ in range(_SYLLABLES_A_NAME):
        number, syllable = divmod(number, len(_SYLLABLES))
        letters.append(_SYLLABLES[syllable])
    return "".join(letters)
