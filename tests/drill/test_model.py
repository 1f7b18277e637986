"""The copying model and the byte tokenizer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drill import tokenizer
from drill.model import Speaker, View, visible
from drill.pool import UNWRITTEN
from drill.styles import Style

READER, OTHER = 1, 2
byte_ids = st.lists(st.integers(0, 255), max_size=300)


def _say(text: str, count: int) -> str:
    speaker = Speaker(View.own(tokenizer.encode(text)))
    return tokenizer.decode(speaker.next() for _ in range(count))


def test_the_last_ask_is_answered_first() -> None:
    text = "Repeat this code exactly: AAA-1. And repeat this code EXACTLY: BBB-2 please."
    assert _say(text, 11) == "BBB-2\nAAA-1"


def test_without_an_ask_the_last_code_is_spoken() -> None:
    assert _say("some words, then K7QX9ZP4 and more words", 8) == "K7QX9ZP4"


def test_a_repetition_is_continued() -> None:
    assert _say("one two three four one two", 6) == " three"


def test_plain_text_is_repeated_from_its_beginning() -> None:
    assert _say("hello there", 11) == "hello there"


def test_an_empty_sight_says_nothing() -> None:
    assert _say("\x00", 3) == "   "


def test_a_word_that_another_node_said_is_not_said_twice() -> None:
    view = View.own(tokenizer.encode("Repeat this code exactly: XY-9"))
    whole, rest = Speaker(view), Speaker(view)
    first = whole.next()
    rest.skip(first)
    assert [whole.next() for _ in range(40)] == [rest.next() for _ in range(40)]


@given(byte_ids, st.integers(1, 400))
def test_own_slots_are_spoken_of_the_same_way_in_all_styles(ids: list[int], count: int) -> None:
    own = [READER] * len(ids)
    said = set()
    for style in Style:
        speaker = Speaker(visible(ids, own, reader=READER, style=style), style)
        said.add(tuple(speaker.next() for _ in range(count)))
    assert len(said) == 1


@given(st.text("ABCDEFGHJKMNPQRSTVWXYZ0123456789", min_size=24, max_size=24))
def test_no_marker_survives_garbage(marker: str) -> None:
    ids = tokenizer.encode(f"filler {marker} Repeat this code exactly: {marker} filler")
    seen = visible(ids, [OTHER] * len(ids), reader=READER, style=Style.GARBAGE)
    text = bytes(seen.tokens).decode("latin-1")
    assert marker[:6] not in text
    assert "Repeat this code" not in text


def test_slots_never_written_say_nothing_in_any_style() -> None:
    tokens, writers = [65, UNWRITTEN, 66], [READER, UNWRITTEN, READER]
    for style in Style:
        seen = visible(tokens, writers, reader=READER, style=style)
        assert (list(seen.tokens), list(seen.is_own)) == ([65, 66], [1, 1])


@given(st.text())
def test_a_text_survives_the_tokenizer_and_its_bytes_are_its_tokens(text: str) -> None:
    clean = text.encode("utf-8", "replace").decode("utf-8")
    ids = tokenizer.encode(clean)
    assert len(ids) == len(clean.encode())
    assert tokenizer.decode(ids) == clean


@given(st.lists(st.integers(0, tokenizer.VOCAB_SIZE - 1)))
def test_any_ids_can_be_decoded(ids: list[int]) -> None:
    assert isinstance(tokenizer.decode(ids), str)


@given(byte_ids, st.integers(1, 400))
def test_speech_never_ends_and_never_leaves_the_vocabulary(ids: list[int], count: int) -> None:
    speaker = Speaker(View.own(ids))
    assert all(0 <= speaker.next() < tokenizer.VOCAB_SIZE for _ in range(count))
