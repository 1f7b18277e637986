"""Prompts of exact token length, with a marker in every page that can hold one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from probes.canary.contract import Tokenizer
from probes.canary.filling import Filling
from probes.markers import ALPHABET, MARKER_CHARACTERS, PAGE_BITS, Marker, MarkerIndex

#: A prompt begins with a code of its own and these words.
STATEMENT = " is my code\n"
#: Words that a model obeys; a code of the prompt follows them, and that code must come back.
ASK = "\nRepeat this code exactly: "
CLOSING = "\nThe code is: "
#: So much of the code ends the prompt, so that small models go on with it; too little for a marker.
LED_CHARACTERS = 4

#: Least distance of two markers, so that 48 show one. Unit: tokens. Source: detection.md A4.
SPAN_TOKENS = 32

SEPARATOR = "\n"
FILLER = " and on it goes, page after page,"
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

    def end(self, code: str) -> list[int]:
        """Answer the ids that follow a code which is to come back; the answer goes on from them."""
        return [*self.closing, *self.spell(code[:LED_CHARACTERS])]

    @property
    def end_tokens(self) -> int:
        """Answer the most tokens of such an end."""
        return len(self.closing) + LED_CHARACTERS * max(map(len, self.letters))

    @property
    def code_tokens(self) -> int:
        """Answer the most tokens that a code can take."""
        return MARKER_CHARACTERS * max(map(len, self.letters))

    def branch(self, number: int) -> int:
        """Answer a token by which the prompt with this number parts from others of its stem."""
        distinct = list(dict.fromkeys(ids[0] for ids in self.letters))
        return distinct[number % len(distinct)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Which request a prompt is, as its markers name it: tenant and request by number."""

    tenant: int
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """The beginning that several prompts share to the token, and whose markers are in it."""

    token_ids: tuple[int, ...]
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt: its ids, and the code that its answer must begin with.

    ``text`` is the same prompt where it must be sent as one. ``origins`` are the requests whose
    markers are its own: its own, and that of the stem that it shares. ``asked_pages`` are those
    whose codes it asks for, where it asks for several.
    """

    token_ids: list[int]
    nonce: str
    text: str = ""
    origins: tuple[Origin, ...] = ()
    asked_pages: tuple[int, ...] = ()


async def learn_vocabulary(tokenize: Tokenizer) -> Vocabulary:
    """Ask a node for the ids of every piece. Raises UnusableTokenizer, FleetError."""
    base = tuple(await tokenize(SEPARATOR))

    async def piece(text: str) -> tuple[int, ...]:
        # After a line break no tokenizer adds the blank that some put before a first word.
        ids = tuple(await tokenize(SEPARATOR + text))
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
        separator=await piece(SEPARATOR),
        filler=await piece(FILLER),
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

    def __init__(
        self,
        *,
        vocabulary: Vocabulary,
        index: MarkerIndex,
        page_size: int,
        filling: Filling | None = None,
    ) -> None:
        self.words = vocabulary
        self._index = index
        self._filling = filling
        marker_tokens = vocabulary.code_tokens + len(vocabulary.separator)
        self.grid = Grid.of(page_size=page_size, marker_tokens=marker_tokens)

    def write(
        self,
        origin: Origin,
        *,
        length: int,
        stem: Stem | None = None,
        branch: int = 0,
        codes: int = 1,
    ) -> Prompt:
        """Answer a prompt of exactly this many tokens. Raises PromptTooShort.

        Every code in it names the page that it stands in, the one that is asked for too. With a
        stem it begins with that one's tokens, and the next is told by its branch. Of several codes
        all but the last are asked for where they stand, as far apart as they can be; with none, one
        is asked for in the first page that holds it, and nothing at the end.
        """
        words = self.words
        if not codes:
            return self._write_early(origin, length=length)
        asked_at = max(0, length - words.end_tokens - words.code_tokens)
        nonce = self.plant(origin, asked_at)
        tail = [*words.ask, *words.spell(nonce), *words.end(nonce)]
        head = self._head(origin) if stem is None else [*stem.token_ids, words.branch(branch)]
        if stem is None and len(tail) <= length < len(head) + len(tail):
            head = []
        if length < len(head) + len(tail):
            needed = len(tail) + (len(head) if stem else 0)
            raise PromptTooShort(f"{length:,} tokens cannot hold ask and code ({needed} tokens)")
        last = length - len(tail)
        asked = self._asked(first=len(head), last=last, count=codes - 1)
        body = self._body(origin, first=len(head), last=last, asked=asked)
        shared = () if stem is None else (stem.origin,)
        pages = {self.grid.page_at(place) for place in (*asked, asked_at)} if asked else ()
        return Prompt(
            token_ids=[*head, *body, *tail],
            nonce=nonce,
            origins=tuple({origin, *shared}),
            asked_pages=tuple(sorted(pages)),
        )

    def _write_early(self, origin: Origin, *, length: int) -> Prompt:
        head, last = self._head(origin), length - self.words.end_tokens
        asked = self._asked(first=len(head), last=last, count=1)
        if not asked:
            raise PromptTooShort(f"{length:,} tokens cannot hold an ask in a page of its own")
        nonce = self.plant(origin, asked[0])
        tail = self.words.end(nonce)
        body = self._body(origin, first=len(head), last=length - len(tail), asked=asked)
        return Prompt(token_ids=[*head, *body, *tail], nonce=nonce, origins=(origin,))

    def write_stem(self, origin: Origin, *, length: int) -> Stem:
        """Answer a beginning of exactly this many tokens, which no other prompt has."""
        head = self._head(origin)
        whole = [*head, *self._body(origin, first=len(head), last=max(length, len(head)))]
        return Stem(token_ids=tuple(whole[:length]), origin=origin)

    def plant(self, origin: Origin, place: int) -> str:
        """Answer the code that names the page in which this token of a prompt stands."""
        page = self.grid.page_at(place)
        return self._index.add(Marker(tenant=origin.tenant, request=origin.request, page=page))

    def _head(self, origin: Origin) -> list[int]:
        opening = self.words.opening
        code = self.plant(origin, len(opening))
        return [*opening, *self.words.spell(code), *self.words.statement]

    def _asked(self, *, first: int, last: int, count: int) -> tuple[int, ...]:
        """Answer so many places of codes with room for an ask before each, fewer where none is."""
        ask, code = len(self.words.ask), self.words.code_tokens + len(self.words.separator)
        starts = [*self.grid.starts(first=first + ask, last=last - code)] if count > 0 else []
        step = max(1.0, len(starts) / max(1, count))
        chosen = [starts[int(at * step)] for at in range(min(count, len(starts)))]
        before = [first - code, *chosen]
        return tuple(
            place for last, place in zip(before, chosen, strict=False) if place - last >= ask + code
        )

    def _body(
        self, origin: Origin, *, first: int, last: int, asked: Sequence[int] = ()
    ) -> list[int]:
        if not asked and self._filling is not None and self._filling.words:
            return self._word_body(self._filling, origin, first=first, last=last)
        words, tokens = self.words, list[int]()
        code = words.code_tokens + len(words.separator)
        for start in self.grid.starts(first=first, last=last):
            lead = words.ask if start in asked else ()
            # An ask and its code stand there, or a fact.
            if not lead and any(-code < at - start < code + len(words.ask) for at in asked):
                continue
            if start < first + len(tokens):
                continue
            tokens += [*self._filler(start - first - len(tokens) - len(lead)), *lead]
            tokens += words.spell(self.plant(origin, start))
            tokens += words.separator
            free = min((at - len(words.ask) for at in asked if at > start), default=last)
            tokens += self._fact(origin, place=first + len(tokens), last=free)
        tokens += self._filler(last - first - len(tokens))
        return tokens[: last - first]

    def _word_body(self, filling: Filling, origin: Origin, *, first: int, last: int) -> list[int]:
        run = origin.tenant, origin.request
        tokens = filling.stream(run, first=first, last=last, page_at=self.grid.page_at)
        return [*tokens, *self._filler(last - first - len(tokens))]

    def _fact(self, origin: Origin, *, place: int, last: int) -> list[int]:
        """Answer the fact of the page where a place is, behind its first code and if it fits."""
        size, page = self.grid.page_size, self.grid.page_at(place)
        is_first = place - page * size < self.grid.span + 1
        if self._filling is None or not is_first:
            return []
        room = min((page + 1) * size, last) - place
        marker = Marker(tenant=origin.tenant, request=origin.request, page=page)
        return self._filling.fact(marker, room=room)

    def _filler(self, count: int) -> Iterator[int]:
        return islice(cycle(self.words.filler), max(0, count))
