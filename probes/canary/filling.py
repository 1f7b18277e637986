"""What stands between codes: an invented fact on each page, or words where pages are too small."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Final

from probes.canary.contract import Tokenizer
from probes.markers import MARKER_CHARACTERS, Marker
from probes.marking.alphabet import BITS_A_CHARACTER
from probes.marking.facts import FactIndex, fact_of
from probes.marking.lexicon import BITS_A_WORD, WORDS
from probes.marking.words import WordIndex

Pieces = Mapping[str, tuple[int, ...]]
_SYLLABLE: Final = re.compile(r"[A-Za-z][a-z]|.", re.DOTALL)
_SYLLABLES: Final = tuple(one + other for one in "bcdfghjklmnprstvwxyz" for other in "aeiou")
_JOINTS: Final = (" of ", " keeps ", " lanterns in house ")
_FACT_PIECES: Final = (
    *_SYLLABLES,
    *(one.capitalize() for one in _SYLLABLES),
    *_JOINTS,
    *"0123456789,. ",
)
_JOINT: Final = re.compile("|".join(map(re.escape, _JOINTS)))
#: Requests to a node's tokenizer that are under way at once.
_AT_ONCE: Final = 8
#: Words that are counted to see whether the tokenizer knows words at all.
_SAMPLES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Fills gaps of a prompt. ``words`` and ``syllables`` are ids by text, empty where not used."""

    word_index: WordIndex
    fact_index: FactIndex
    words: Pieces = field(default_factory=dict)
    syllables: Pieces = field(default_factory=dict)

    def fact(self, marker: Marker, *, room: int) -> list[int]:
        """Answer the fact of a page where facts are used and it fits. Unit: tokens."""
        if not self.syllables:
            return []
        ids = _spell(self.syllables, self.fact_index.add(marker).sentence)
        return ids if len(ids) <= room else []

    def stream(
        self, run: tuple[int, int], *, first: int, last: int, page_at: Callable[[int], int]
    ) -> list[int]:
        """Answer the words of a request from one token to another, each known by its page."""
        tenant, request = run
        least = min(map(len, self.words.values()))
        numbers = self.word_index.preview(
            tenant=tenant, request=request, count=max(0, last - first) // least
        )
        sizes = [len(self.words[WORDS[number]]) for number in numbers]
        starts = [first, *(first + end for end in accumulate(sizes))]
        pages = [page_at(start) for start, end in pairwise(starts) if end <= last]
        planted = self.word_index.add(tenant=tenant, request=request, pages=pages)
        return [token for number in planted for token in self.words[WORDS[number]]]


async def learn_filling(
    tokenize: Tokenizer,
    filling: Filling,
    *,
    page_size: int,
    letters: Iterable[tuple[int, ...]],
    separator: str,
) -> Filling:
    """Answer a filling that knows the ids it needs for pages of this size. Raises FleetError.

    Words are used where no page holds a code, and only where they say more in as many tokens: a
    tokenizer that knows no words makes codes the denser of the two.
    """
    letter_tokens = max(map(len, letters))
    code_tokens = MARKER_CHARACTERS * letter_tokens + 1
    if page_size < code_tokens:
        # One look at some of them tells whether the rest is worth asking for.
        sample = len(await tokenize(" " + " ".join(WORDS[:_SAMPLES]))) / _SAMPLES
        is_denser = BITS_A_WORD / sample > BITS_A_CHARACTER / letter_tokens
        named = {word: f" {word}" for word in WORDS} if is_denser else {}
        return replace(filling, words=await _learn(tokenize, separator, named))
    sentence = fact_of(b"", Marker(tenant=0, request=0, page=0)).sentence
    fits = page_size >= code_tokens + len(await tokenize(sentence))
    parts = {piece: piece for piece in _FACT_PIECES} if fits else {}
    return replace(filling, syllables=await _learn(tokenize, separator, parts))


async def _learn(tokenize: Tokenizer, separator: str, pieces: Mapping[str, str]) -> Pieces:
    """Answer the ids of each text, as they are behind a line's end."""
    base = tuple(await tokenize(separator))
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(text: str) -> tuple[int, ...]:
        async with gate:
            ids = tuple(await tokenize(separator + text))
        return ids[len(base) :] if base and ids[: len(base)] == base else ids

    found = await asyncio.gather(*map(one, pieces.values()))
    return dict(zip(pieces, found, strict=True))


def _spell(pieces: Pieces, sentence: str) -> list[int]:
    ids: list[int] = []
    place = 0
    for joint in _JOINT.finditer(sentence):
        ids += _syllables(pieces, sentence[place : joint.start()])
        ids += pieces[joint.group()]
        place = joint.end()
    return [*ids, *_syllables(pieces, sentence[place:])]


def _syllables(pieces: Pieces, text: str) -> list[int]:
    return [token for part in _SYLLABLE.findall(text) for token in pieces[part]]
