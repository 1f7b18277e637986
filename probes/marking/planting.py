"""What to plant in pages of a size: a code and a fact, a code alone, or words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from probes.marking.alphabet import ALPHABET, MARKER_CHARACTERS
from probes.marking.code import PAGE_BITS, Marker
from probes.marking.facts import FactIndex, fact_of
from probes.marking.lexicon import WORDS
from probes.marking.search import MarkerIndex
from probes.marking.words import WordIndex

#: Answers how many tokens a piece of text takes.
Count = Callable[[str], int]

SEPARATOR: Final = "\n"
_LAST_PAGE: Final = (1 << PAGE_BITS) - 1
#: Facts differ by a letter or two in length; so many are counted for the longest.
_SAMPLES: Final = 16


class Style(StrEnum):
    """What a page holds."""

    CODE_AND_FACT = "code_and_fact"
    CODE = "code"
    WORDS = "words"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A piece of a prompt, the page that it begins in, and how many tokens it takes."""

    text: str
    page: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexes:
    """Where what is planted is entered, so that it is found."""

    codes: MarkerIndex
    words: WordIndex
    facts: FactIndex


def style_for(*, page_size: int, count: Count) -> Style:
    """Answer what pages of so many tokens can hold, whichever the code. Unit: tokens."""
    code = code_tokens(count)
    if page_size >= code + _fact_tokens(count):
        return Style.CODE_AND_FACT
    return Style.CODE if page_size >= code else Style.WORDS


def code_tokens(count: Count) -> int:
    """Answer the most tokens that a code with its separator takes, spelled letter by letter."""
    return MARKER_CHARACTERS * max(map(count, ALPHABET)) + count(SEPARATOR)


def plant(
    indexes: Indexes, run: tuple[int, int], *, page_size: int, length: int, count: Count
) -> Iterator[Planted]:
    """Answer the pieces that fill ``length`` tokens of a prompt, each known to the index.

    Codes stand at the beginning of their pages, a fact behind its code; the caller fills up the
    page with what it likes. Words follow each other without a gap, however small the pages are,
    and every token of the prompt belongs to one. Unit: tokens. Raises ValueError where the request
    or the page does not fit a marker.
    """
    style = style_for(page_size=page_size, count=count)
    if style is Style.WORDS:
        yield from _plant_words(indexes.words, run, page_size=page_size, length=length, count=count)
        return
    for page in range(length // page_size):
        marker = Marker(tenant=run[0], request=run[1], page=page)
        text = indexes.codes.add(marker) + SEPARATOR
        if style is Style.CODE_AND_FACT:
            text += indexes.facts.add(marker).sentence
        yield Planted(text=text, page=page, tokens=count(text))


def _plant_words(
    index: WordIndex, run: tuple[int, int], *, page_size: int, length: int, count: Count
) -> Iterator[Planted]:
    # Which words come is known before they are counted; their pages are known only after.
    sizes = [count(f" {word}") for word in WORDS]
    tenant, request = run
    numbers = index.preview(tenant=tenant, request=request, count=length // min(sizes))
    starts, place = [], 0
    for number in numbers:
        if place + sizes[number] > length:
            break
        starts.append(place)
        place += sizes[number]
    pages = [min(start // page_size, _LAST_PAGE) for start in starts]
    for number, page in zip(
        index.add(tenant=tenant, request=request, pages=pages), pages, strict=True
    ):
        yield Planted(text=f" {WORDS[number]}", page=page, tokens=sizes[number])


def _fact_tokens(count: Count) -> int:
    markers = [Marker(tenant=0, request=0, page=page) for page in range(_SAMPLES)]
    return max(count(fact_of(b"", marker).sentence) for marker in markers)
