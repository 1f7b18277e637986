"""Prompts: exact length by count of ids, a marker in every page that can hold one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.canary.prompts import (
    CLOSING,
    Origin,
    PromptTooShort,
    PromptWriter,
    UnusableTokenizer,
    Vocabulary,
    learn_vocabulary,
)
from probes.markers import MARKER_CHARACTERS, Marker, MarkerIndex, MarkerKey
from tests.probes.canary_fakes import tokenize

KEY = MarkerKey(b"a secret")
_ASK = "Repeat this code exactly: "


def byte_vocabulary() -> Vocabulary:
    coroutine = learn_vocabulary(tokenize)
    try:
        coroutine.send(None)
    except StopIteration as done:
        vocabulary: Vocabulary = done.value
        return vocabulary
    raise AssertionError("a tokenizer without waiting made it wait")


VOCABULARY = byte_vocabulary()


def write(length: int, page_size: int, vocabulary: Vocabulary = VOCABULARY) -> tuple[str, str]:
    writer = PromptWriter(vocabulary=vocabulary, index=MarkerIndex(KEY), page_size=page_size)
    prompt = writer.write(Origin(tenant=2, request=99), length=length)
    assert len(prompt.token_ids) == length
    return bytes(token % 256 for token in prompt.token_ids).decode(), prompt.nonce


@given(st.integers(160, 4000), st.sampled_from([1, 7, 16, 25, 32, 61, 64, 100, 256, 1009]))
def test_length_is_exact_and_the_ask_ends_the_prompt(length: int, page_size: int) -> None:
    text, nonce = write(length, page_size)
    assert text.endswith(f"\n{_ASK}{nonce}{CLOSING}{nonce[:4]}")
    assert KEY.read(text[1 : 1 + MARKER_CHARACTERS]) == Marker(
        tenant=2, request=99, page=1 // page_size
    )


@given(st.integers(300, 6000), st.sampled_from([32, 61, 64, 100, 256, 1009]))
def test_every_page_that_can_hold_a_marker_holds_its_own(length: int, page_size: int) -> None:
    text, _ = write(length, page_size)
    head, tail = text.index("\n", 2) + 1, text.rindex("\n" + _ASK)
    for page in range(length // page_size):
        start = page * page_size
        if start < head or start + MARKER_CHARACTERS > tail:
            continue
        found = KEY.read(text[start : start + MARKER_CHARACTERS])
        assert found == Marker(tenant=2, request=99, page=page)


@given(st.integers(300, 6000), st.sampled_from([1, 2, 7, 16, 24]))
def test_small_pages_have_a_marker_every_48_tokens(length: int, page_size: int) -> None:
    text, _ = write(length, page_size)
    hits = MarkerIndex(KEY).search(text)
    assert all(hit.marker.page == hit.offset // page_size for hit in hits)
    ends = [0, *(hit.offset for hit in hits), length]
    longest = max(later - earlier for earlier, later in pairwise(ends))
    # Head and tail, with their words, stretch the distance by less than another marker.
    assert longest <= 48 + len(_ASK) + MARKER_CHARACTERS


@given(st.integers(0, 50))
def test_a_length_that_cannot_hold_the_ask_is_refused(length: int) -> None:
    with pytest.raises(PromptTooShort, match=str(length)):
        write(length, 64)


@given(st.integers(100, 160))
def test_a_short_prompt_is_exact_and_still_ends_with_its_ask(length: int) -> None:
    text, nonce = write(length, 64)
    assert _ASK + nonce in text


async def test_a_tokenizer_with_special_tokens_and_word_starts_is_understood() -> None:
    async def with_specials(text: str) -> Sequence[int]:
        return [300, *text.encode()]

    vocabulary = await learn_vocabulary(with_specials)
    writer = PromptWriter(vocabulary=vocabulary, index=MarkerIndex(KEY), page_size=64)
    ids = writer.write(Origin(tenant=1, request=1), length=500).token_ids
    assert ids[0] == 300
    assert ids.count(300) == 1


async def test_a_tokenizer_that_gives_nothing_is_refused() -> None:
    async def silent(text: str) -> Sequence[int]:
        return [1] if text == "\n" else [] if "0" in text else [1, 2]

    with pytest.raises(UnusableTokenizer):
        await learn_vocabulary(silent)


@given(st.integers(1, 3), st.integers(400, 2000))
def test_letters_of_several_tokens_keep_the_length(width: int, length: int) -> None:
    wide = Vocabulary(
        opening=(1,),
        statement=(2, 3),
        ask=(4, 5, 6),
        closing=(7,),
        separator=(8,),
        filler=(9, 10),
        letters=tuple((100 + number,) * width for number in range(32)),
    )
    writer = PromptWriter(vocabulary=wide, index=MarkerIndex(KEY), page_size=64)
    assert len(writer.write(Origin(tenant=1, request=1), length=length).token_ids) == length


@given(
    st.integers(600, 6000),
    st.sampled_from([1, 16, 32, 61, 64, 256]),
    st.integers(2, 6),
    st.booleans(),
)
def test_a_prompt_asks_for_the_codes_of_pages_far_apart(
    length: int, page_size: int, codes: int, has_stem: bool
) -> None:
    writer = PromptWriter(vocabulary=VOCABULARY, index=MarkerIndex(KEY), page_size=page_size)
    origin = Origin(tenant=2, request=99)
    stem = writer.write_stem(Origin(tenant=1, request=5), length=160) if has_stem else None
    prompt = writer.write(origin, length=length, stem=stem, codes=codes)
    text = bytes(prompt.token_ids).decode()
    assert len(text) == length
    asked = [place + len(_ASK) for place in range(length) if text.startswith(_ASK, place)]
    assert len(asked) == codes
    found = [KEY.read(text[place : place + MARKER_CHARACTERS]) for place in asked]
    pages = [place // page_size for place in asked]
    assert found == [Marker(tenant=2, request=99, page=page) for page in pages]
    assert prompt.asked_pages == tuple(sorted(set(pages)))
    # Spread over the prompt, the last one at its end.
    longest = max(later - earlier for earlier, later in pairwise([0, *asked]))
    assert longest <= length / (codes - 1) + 3 * 64 + 256 + 160 * has_stem


def test_one_code_is_asked_for_where_nobody_wants_more() -> None:
    writer = PromptWriter(vocabulary=VOCABULARY, index=MarkerIndex(KEY), page_size=64)
    prompt = writer.write(Origin(tenant=2, request=99), length=2_000)
    assert bytes(prompt.token_ids).decode().count(_ASK) == 1
    assert prompt.asked_pages == ()


@given(st.integers(400, 3000), st.sampled_from([16, 64, 256]))
def test_a_prompt_may_ask_near_its_beginning_alone(length: int, page_size: int) -> None:
    writer = PromptWriter(vocabulary=VOCABULARY, index=MarkerIndex(KEY), page_size=page_size)
    prompt = writer.write(Origin(tenant=2, request=99), length=length, codes=0)
    text = bytes(prompt.token_ids).decode()
    assert len(text) == length
    assert text.count(_ASK) == 1
    assert text.index(_ASK + prompt.nonce) < 2 * max(64, page_size)
