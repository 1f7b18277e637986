"""Words and facts: found by any window, by any paraphrase; what fits a page is planted in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.marking.alphabet import MARKER_CHARACTERS
from probes.marking.code import Marker, MarkerKey
from probes.marking.evidence import Grade, View
from probes.marking.facts import FactIndex, fact_of
from probes.marking.lexicon import NUMBERS, WORDS
from probes.marking.planting import (
    SEPARATOR,
    Indexes,
    Planted,
    Style,
    code_tokens,
    plant,
    style_for,
)
from probes.marking.search import MarkerIndex
from probes.marking.trace import trace
from probes.marking.words import BLOCK_WORDS, WordIndex
from tests.probes.marker_texts import chance

SECRET = b"a secret of the tests"
#: A request of 16,384 pages of one token. Source: issue 4, "16-token and 1-token pages".
PLACES = 16_384


def live_words() -> tuple[WordIndex, list[str]]:
    index = WordIndex(SECRET)
    numbers = index.add(tenant=3, request=77, pages=range(PLACES))
    index.add(tenant=4, request=78, pages=range(PLACES))
    return index, [WORDS[number] for number in numbers]


INDEX, STREAM = live_words()


def in_prose(said: str) -> str:
    # 700 words, as an answer of 4 KB has.
    prose = "and so the old town woke up, slowly, while 35 carts rolled by " * 50
    return f"{prose} {said} {prose}"


def test_the_lexicon_has_256_words_that_none_can_take_for_another() -> None:
    assert len(WORDS) == len(NUMBERS) == 256
    assert all(word.isalpha() and word.islower() and word.isascii() for word in WORDS)


@pytest.mark.parametrize(
    ("words", "grade"), [(14, Grade.ALARM), (7, Grade.SUSPECT), (4, Grade.NOTHING)]
)
def test_every_window_tells_tenant_request_and_place(words: int, grade: Grade) -> None:
    random_ = chance(words)
    for _ in range(50):
        place = random_.randrange(PLACES - words)
        found = INDEX.find(in_prose(" ".join(STREAM[place : place + words])))
        assert found.grade is grade
        if grade is not Grade.NOTHING:
            (finding,) = found.findings
            assert finding.marker == Marker(tenant=3, request=77, page=place)
            assert finding.characters == words


@pytest.mark.parametrize("between", [" ", "\n", "-", "** **", ", ", "\u200b", " | "])
def test_words_are_found_in_any_case_with_anything_between(between: str) -> None:
    said = between.join(word.upper() for word in STREAM[500:520])
    (finding,) = INDEX.find(f"He said: {said}.").findings
    assert finding.marker.page == 500
    assert finding.offset == len("He said: ")
    assert finding.length == len(said)


def test_a_changed_word_costs_the_window_and_no_more() -> None:
    words = STREAM[500:530]
    words[15] = "velocipede"
    found = INDEX.find(" ".join(words))
    assert [finding.marker.page for finding in found.findings] == [500, 516]
    assert found.grade is Grade.ALARM


def test_a_whole_block_tells_request_and_place_without_an_index() -> None:
    block = 9
    said = " ".join(STREAM[block * BLOCK_WORDS - 3 : (block + 1) * BLOCK_WORDS + 3])
    (finding,) = WordIndex(SECRET).find(in_prose(said)).findings
    assert finding.marker == Marker(tenant=3, request=77, page=block)
    assert finding.grade is Grade.SUSPECT
    assert not finding.is_live
    assert WordIndex(b"another").find(said).findings == ()


def test_no_window_of_five_words_stands_twice() -> None:
    windows = {tuple(STREAM[at : at + 5]) for at in range(PLACES - 4)}
    assert len(windows) == PLACES - 4


def test_random_words_of_the_lexicon_are_nothing() -> None:
    random_ = chance(4)
    for _ in range(200):
        assert INDEX.find(" ".join(random_.choices(WORDS, k=700))).findings == ()


@given(st.text())
def test_no_text_makes_words_facts_or_trace_raise(text: str) -> None:
    facts = FactIndex(SECRET)
    facts.add(Marker(tenant=1, request=1, page=1))
    assert trace(text, MarkerIndex(MarkerKey(SECRET)), words=INDEX, facts=facts).findings == ()


PAGES = [Marker(tenant=3, request=77, page=page) for page in range(2000)]
FACTS = FactIndex(SECRET)
for page_ in PAGES:
    FACTS.add(page_)


def test_no_two_pages_share_a_name() -> None:
    names = [name for marker in PAGES for name in fact_of(SECRET, marker).names]
    assert len(set(names)) == len(names)


def test_a_fact_as_it_stands_names_its_page() -> None:
    marker = PAGES[123]
    said = fact_of(SECRET, marker).sentence
    text = in_prose(said)
    (finding,) = FACTS.find(text).findings
    assert finding.marker == marker
    assert finding.view is View.FACT
    assert finding.grade is not Grade.NOTHING
    assert text[finding.offset : finding.offset + finding.length] in said


def paraphrases(marker: Marker) -> Iterator[str]:
    fact = fact_of(SECRET, marker)
    given_, family, town = (name.capitalize() for name in fact.names)
    yield (
        f"House {fact.house} is known for its {fact.lanterns} lanterns; its owner, "
        f"{family.upper()}, {given_}, comes from {town}."
    )
    yield f"In {town} lives {given_} {family}, who owns {fact.lanterns:_}".replace("_", " ")
    yield f"{given_}'s lanterns ({fact.lanterns:,}) light all of {town}-on-Sea."


def test_a_paraphrase_is_a_suspicion_and_two_pages_are_an_alarm() -> None:
    for one, other in zip(paraphrases(PAGES[5]), paraphrases(PAGES[900]), strict=True):
        found = FACTS.find(in_prose(one))
        assert [finding.marker for finding in found.findings] == [PAGES[5]]
        assert found.grade is Grade.SUSPECT
        both = FACTS.find(in_prose(f"{one} {other}"))
        assert both.runs[0].pages == (5, 900)
    assert both.runs[0].net_bits > found.runs[0].net_bits


def test_two_whole_facts_of_a_run_are_an_alarm() -> None:
    said = " ".join(fact_of(SECRET, PAGES[page]).sentence for page in (5, 900))
    assert FACTS.find(in_prose(said)).grade is Grade.ALARM


def test_a_single_name_or_figure_is_nothing() -> None:
    fact = fact_of(SECRET, PAGES[7])
    for said in (fact.names[0], str(fact.lanterns), f"{fact.lanterns} {fact.house}"):
        assert FACTS.find(in_prose(said)).findings == ()


def test_parts_far_from_each_other_do_not_count_together() -> None:
    fact = fact_of(SECRET, PAGES[7])
    near = FACTS.find(in_prose(f"{fact.names[0]} {fact.names[1]}"))
    assert near.grade is Grade.SUSPECT
    far = FACTS.find(in_prose(f"{fact.names[0]} {'la ' * 40} {fact.names[1]}"))
    assert far.grade is Grade.NOTHING


def test_the_work_for_facts_and_words_grows_with_the_text() -> None:
    name = fact_of(SECRET, PAGES[7]).names[0]
    for unit, index in ((f"{name} 4711 ", FACTS), (" ".join(STREAM[:20]) + " ", INDEX)):
        short, long = (index.find(unit * count).effort for count in (500, 2000))
        assert long.windows <= 4.1 * short.windows
        assert long.seeds <= 4.1 * short.seeds + 1
        assert long.decodes <= 4.1 * short.decodes + 1


def a_token_a_byte(text: str) -> int:
    """Answer what the drill's tokenizer counts."""
    return len(text.encode())


def a_token_a_word(text: str) -> int:
    """Answer what a large vocabulary would count: a token a word, two letters of a code each."""
    return sum(1 if word.islower() else -(-len(word) // 2) for word in text.split()) or 1


@pytest.mark.parametrize(
    ("page_size", "style"),
    [
        (1, Style.WORDS),
        (16, Style.WORDS),
        (24, Style.WORDS),
        (25, Style.CODE),
        (64, Style.CODE),
        (256, Style.CODE_AND_FACT),
    ],
)
def test_a_page_holds_what_fits_it_by_the_drills_tokenizer(page_size: int, style: Style) -> None:
    assert code_tokens(a_token_a_byte) == MARKER_CHARACTERS + len(SEPARATOR)
    assert style_for(page_size=page_size, count=a_token_a_byte) is style


def planted(page_size: int, length: int) -> tuple[Indexes, list[Planted]]:
    indexes = Indexes(
        codes=MarkerIndex(MarkerKey(SECRET)), words=WordIndex(SECRET), facts=FactIndex(SECRET)
    )
    pieces = plant(indexes, (3, 77), page_size=page_size, length=length, count=a_token_a_byte)
    return indexes, list(pieces)


@pytest.mark.parametrize("page_size", [25, 64, 256])
def test_every_page_that_can_hold_a_code_gets_its_own(page_size: int) -> None:
    indexes, pieces = planted(page_size, 40 * page_size + 3)
    assert [piece.page for piece in pieces] == list(range(40))
    for piece in pieces:
        assert piece.tokens == a_token_a_byte(piece.text) <= page_size
        found = trace(piece.text, indexes.codes, words=indexes.words, facts=indexes.facts)
        assert {finding.marker for finding in found.findings} == {
            Marker(tenant=3, request=77, page=piece.page)
        }
        assert found.grade is Grade.ALARM


@pytest.mark.parametrize("page_size", [1, 16])
def test_words_cover_every_small_page_and_name_it(page_size: int) -> None:
    indexes, pieces = planted(page_size, 4000)
    place = 0
    for piece in pieces:
        assert piece.page == place // page_size
        assert piece.tokens == a_token_a_byte(piece.text)
        place += piece.tokens
    assert 4000 - max(map(len, WORDS)) - 1 <= place <= 4000
    text = "".join(piece.text for piece in pieces)
    for first in range(0, len(pieces) - 16, 37):
        said = "".join(piece.text for piece in pieces[first : first + 16])
        (finding,) = trace(f"x{said} ", indexes.codes, words=indexes.words).findings
        assert finding.marker.page == pieces[first].page
        assert finding.grade is Grade.ALARM
        assert said in text


def test_words_of_one_token_each_put_a_word_in_every_page_of_one_token() -> None:
    indexes = Indexes(
        codes=MarkerIndex(MarkerKey(SECRET)), words=WordIndex(SECRET), facts=FactIndex(SECRET)
    )
    pieces = list(plant(indexes, (3, 77), page_size=1, length=500, count=a_token_a_word))
    assert [piece.page for piece in pieces] == list(range(500))


def test_a_trace_joins_codes_words_and_facts_of_a_run() -> None:
    marker = PAGES[11]
    index = MarkerIndex(MarkerKey(SECRET), PAGES)
    code = MarkerKey(SECRET).write(marker)
    said = f"{code[:12]} {' '.join(STREAM[900:908])} {fact_of(SECRET, PAGES[12]).sentence}"
    found = trace(f"A customer writes: {said}", index, words=INDEX, facts=FACTS)
    assert [finding.view for finding in found.findings] == [View.PLAIN, View.WORDS, View.FACT]
    assert [(run.tenant, run.request) for run in found.runs] == [(3, 77)]
    assert found.runs[0].pages == (11, 12, 900)
    assert found.grade is Grade.ALARM


def test_a_trace_by_tag_alone_names_the_page_and_raises_no_alarm() -> None:
    code = MarkerKey(SECRET).write(PAGES[11])
    (finding,) = trace(
        f"ref {code[:9]}-{code[9:].lower()}", MarkerIndex(MarkerKey(SECRET))
    ).findings
    assert finding.marker == PAGES[11]
    assert finding.view is View.SPLIT
    assert (finding.grade, finding.is_live) == (Grade.SUSPECT, False)
