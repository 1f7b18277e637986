"""What stands between codes: words where pages are small, facts where they are large enough."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from probes.canary.catalogue import Catalogue
from probes.canary.filling import Filling, learn_filling
from probes.canary.prompts import SEPARATOR, Origin, PromptWriter, learn_vocabulary
from probes.marking.evidence import Grade, View
from tests.probes.canary_fakes import tokenize as as_bytes

OWN = Origin(tenant=1, request=77)
_PIECE = re.compile(r" ?[a-z]+| ?[A-Z][a-z]+|.", re.DOTALL)


class Words:
    """A tokenizer that knows words, as real ones do; letters alone are tokens too."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.asked = 0

    async def __call__(self, text: str) -> Sequence[int]:
        self.asked += 1
        pieces = _PIECE.findall(text)
        return [self.ids.setdefault(piece, len(self.ids)) for piece in pieces]

    def text(self, ids: Sequence[int]) -> str:
        names = {number: piece for piece, number in self.ids.items()}
        return "".join(names[one] for one in ids)


async def written(
    tokenizer: Words, *, page_size: int, length: int = 2_000
) -> tuple[Catalogue, list[int]]:
    catalogue = Catalogue.of(b"a secret")
    vocabulary = await learn_vocabulary(tokenizer)
    filling = await learn_filling(
        tokenizer,
        Filling(word_index=catalogue.words, fact_index=catalogue.facts),
        page_size=page_size,
        letters=vocabulary.letters,
        separator=SEPARATOR,
    )
    writer = PromptWriter(
        vocabulary=vocabulary, index=catalogue.codes, page_size=page_size, filling=filling
    )
    return catalogue, writer.write(OWN, length=length).token_ids


@pytest.mark.parametrize("page_size", [1, 16])
async def test_every_small_page_names_itself_in_words(page_size: int) -> None:
    tokenizer = Words()
    catalogue, ids = await written(tokenizer, page_size=page_size)
    assert len(ids) == 2_000
    # Sixteen tokens anywhere, as a page would leak them, are an alarm and name their place.
    for start in range(64, 1_900, 112):
        found = catalogue.find(tokenizer.text(ids[start : start + 16]))
        (finding,) = found.findings
        assert finding.grade is Grade.ALARM
        assert finding.view is View.WORDS
        assert finding.run == (OWN.tenant, OWN.request)
        assert finding.marker.page == start // page_size


@pytest.mark.parametrize("page_size", [96, 128, 256])
async def test_a_large_page_holds_a_fact_that_outlives_a_paraphrase(page_size: int) -> None:
    tokenizer = Words()
    catalogue, ids = await written(tokenizer, page_size=page_size)
    assert len(ids) == 2_000
    told = re.compile(r"([A-Z][a-z]+) ([A-Z][a-z]+) of ([A-Z][a-z]+) keeps ([\d,]+) lanterns")
    for page in range(1, 2_000 // page_size - 1):
        text = tokenizer.text(ids[page * page_size : (page + 1) * page_size])
        (fact,) = told.findall(text)
        given, family, town, lanterns = fact
        said = f"In {town} there lives {family}, {given} by first name, with {lanterns} lamps."
        (finding,) = catalogue.find(said).findings
        assert (finding.view, finding.marker.page) == (View.FACT, page)
        assert finding.run == (OWN.tenant, OWN.request)
        assert len(catalogue.codes.search(text)) >= 1, "the page's code is there as before"


@pytest.mark.parametrize("codes", [1, 2, 5, 12])
@pytest.mark.parametrize("page_size", [16, 64, 96, 256])
async def test_asked_pages_and_facts_leave_every_place_exact(page_size: int, codes: int) -> None:
    tokenizer = Words()
    catalogue, _ = await written(tokenizer, page_size=page_size)
    vocabulary = await learn_vocabulary(tokenizer)
    filling = await learn_filling(
        tokenizer,
        Filling(word_index=catalogue.words, fact_index=catalogue.facts),
        page_size=page_size,
        letters=vocabulary.letters,
        separator=SEPARATOR,
    )
    writer = PromptWriter(
        vocabulary=vocabulary, index=catalogue.codes, page_size=page_size, filling=filling
    )
    prompt = writer.write(Origin(tenant=2, request=5), length=2_001, codes=codes)
    assert len(prompt.token_ids) == 2_001
    texts = [tokenizer.text(prompt.token_ids[:end]) for end in range(2_002)]
    token_at = {len(text): end for end, text in enumerate(texts)}
    for hit in catalogue.codes.search(texts[-1]):
        assert hit.marker.page == token_at[hit.offset] // page_size


async def test_a_tokenizer_without_words_keeps_its_codes_and_is_hardly_asked() -> None:
    count = 0

    async def counted(text: str) -> Sequence[int]:
        nonlocal count
        count += 1
        return await as_bytes(text)

    catalogue = Catalogue.of(b"a secret")
    filling = Filling(word_index=catalogue.words, fact_index=catalogue.facts)
    letters = (await learn_vocabulary(as_bytes)).letters
    for page_size in (1, 16, 64):
        learned = await learn_filling(
            counted, filling, page_size=page_size, letters=letters, separator=SEPARATOR
        )
        assert not learned.words
        assert not learned.syllables
    assert count <= 6
