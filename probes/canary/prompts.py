"""Prompts of exact token length, with a marker in every page that can hold one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

from probes.canary.contract import Tokenizer
from probes.markers import ALPHABET, MARKER_CHARACTERS, PAGE_BITS, Marker, MarkerIndex

#: A prompt begins with a code of its own and these words.
STATEMENT = " is my code\n"
#: Words that a model obeys; a code of the prompt follows them, and that code must come back.
ASK = "\nRepeat this code exactly: "
CLOSING = "\nThen continue.\n"

#: Least distance of two markers. Unit: tokens. Source: detection.md A4, a marker every 48 tokens at
#: most, so that what is copied out of a page shows a whole one soon.
SPAN_TOKENS = 32

_SEPARATOR = "\n"
_FILLER = " and on it goes, page after page,"
_LAST_PAGE = (1 << PAGE_BITS) - 1


class UnusableTokenizer(Exception):
    """The node's tokenizer does not give ids that prompts could be built from."""


class PromptTooShort(Exception):
    """The wanted length cannot hold the ask and its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Token ids of the pieces that prompts are built from.

    A prompt is sent as ids, so its length is the count of its ids, whatever the tokenizer would
    make of the joined text. Each character of a code has its own ids: the place of a marker in its
    page is then exact. ``opening`` holds the special tokens with which the model's prompts begin.
    """

    opening: tuple[int, ...]
    statement: tuple[int, ...]
    ask: tuple[int, ...]
    closing: tuple[int, ...]
    separator: tuple[int, ...]
    filler: tuple[int, ...]
    letters: tuple[tuple[int, ...], ...]

    def spell(self, code: str) -> list[int]:
        """Answer the ids of a code."""
        return [token for letter in code for token in self.letters[ALPHABET.index(letter)]]

    @property
    def code_tokens(self) -> int:
        """Answer the most tokens that a code can take."""
        return MARKER_CHARACTERS * max(map(len, self.letters))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt: its ids, and the code that its answer must begin with."""

    token_ids: list[int]
    nonce: str


async def learn_vocabulary(tokenize: Tokenizer) -> Vocabulary:
    """Ask a node for the ids of every piece. Raises UnusableTokenizer, FleetError."""
    base = tuple(await tokenize(_SEPARATOR))

    async def piece(text: str) -> tuple[int, ...]:
        # After a line break no tokenizer adds the blank that some put before a first word.
        ids = tuple(await tokenize(_SEPARATOR + text))
        if base and ids[: len(base)] == base:
            ids = ids[len(base) :]
        if not ids:
            raise UnusableTokenizer(f"the node's tokenizer gives no ids for {text!r}")
        return ids

    return Vocabulary(
        opening=base,
        statement=await piece(STATEMENT),
        ask=await piece(ASK),
        closing=await piece(CLOSING),
        separator=await piece(_SEPARATOR),
        filler=await piece(_FILLER),
        letters=tuple([await piece(letter) for letter in ALPHABET]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Where markers stand. Unit: tokens.

    A page that can hold a marker holds as many as fit at ``SPAN_TOKENS``, the first at its very
    beginning; where pages are smaller, markers follow each other across them.
    """

    page_size: int
    cell: int
    span: int
    spans_a_cell: int

    @classmethod
    def of(cls, *, page_size: int, marker_tokens: int) -> Grid:
        """Answer the grid for pages and markers of these sizes."""
        least = max(SPAN_TOKENS, marker_tokens)
        cell = page_size if page_size >= marker_tokens else least
        spans = max(1, cell // least)
        return cls(page_size=page_size, cell=cell, span=cell // spans, spans_a_cell=spans)

    def starts(self, *, first: int, last: int) -> Iterator[int]:
        """Answer every place of a marker from one token up to, not including, another."""
        for cell in range(first // self.cell * self.cell, last, self.cell):
            for span in range(self.spans_a_cell):
                start = cell + span * self.span
                if first <= start < last:
                    yield start

    def page_at(self, token: int) -> int:
        """Answer the index of the engine's page that a token falls into."""
        return min(token // self.page_size, _LAST_PAGE)


class PromptWriter:
    """Writes prompts of one round; every marker that it plants is in the index from then on."""

    def __init__(self, *, vocabulary: Vocabulary, index: MarkerIndex, page_size: int) -> None:
        self._words = vocabulary
        self._index = index
        marker_tokens = vocabulary.code_tokens + len(vocabulary.separator)
        self._grid = Grid.of(page_size=page_size, marker_tokens=marker_tokens)

    def write(self, *, tenant: int, request: int, length: int) -> Prompt:
        """Answer a prompt of exactly this many tokens. Raises PromptTooShort.

        Every code in it names the page that it stands in, the one that is asked for too.
        """
        opening, closing = self._words.opening, self._words.closing
        asked_at = max(0, length - len(closing) - self._words.code_tokens)
        nonce = self._plant(tenant, request, asked_at)
        tail = [*self._words.ask, *self._words.spell(nonce), *closing]
        if length < len(tail):
            raise PromptTooShort(
                f"{length:,} tokens cannot hold the ask and its code ({len(tail)} tokens)"
            )
        code = self._plant(tenant, request, len(opening))
        head = [*opening, *self._words.spell(code), *self._words.statement]
        if length < len(head) + len(tail):
            head = []
        body = self._body(tenant, request, first=len(head), last=length - len(tail))
        return Prompt(token_ids=[*head, *body, *tail], nonce=nonce)

    def _body(self, tenant: int, request: int, *, first: int, last: int) -> list[int]:
        tokens: list[int] = []
        for start in self._grid.starts(first=first, last=last):
            tokens += self._filler(start - first - len(tokens))
            tokens += self._words.spell(self._plant(tenant, request, start))
            tokens += self._words.separator
        tokens += self._filler(last - first - len(tokens))
        return tokens[: last - first]

    def _plant(self, tenant: int, request: int, place: int) -> str:
        page = self._grid.page_at(place)
        return self._index.add(Marker(tenant=tenant, request=request, page=page))

    def _filler(self, count: int) -> Iterator[int]:
        return islice(cycle(self._words.filler), max(0, count))
