"""Markers: round trip, false tags, fragments, and no text that makes the search raise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.markers import (
    ALPHABET,
    FRAGMENT_CHARACTERS,
    MARKER_CHARACTERS,
    Marker,
    MarkerIndex,
    MarkerKey,
    derive_request,
)
from probes.marking.code import has_seeds

KEY = MarkerKey(b"a secret of the tests")
OTHER = MarkerKey(b"another secret")

markers = st.builds(
    Marker,
    tenant=st.integers(0, 2**20 - 1),
    request=st.integers(0, 2**24 - 1),
    page=st.integers(0, 2**21 - 1),
)
#: Neighbours that the search must not take for part of a code.
outside = st.text(alphabet=" .,-:\n\u00e9\u212a!", max_size=12)
cases = st.sampled_from([str.upper, str.lower, str.title])


@given(markers)
def test_a_code_reads_back_as_what_was_written(marker: Marker) -> None:
    code = KEY.write(marker)
    assert len(code) == MARKER_CHARACTERS
    assert set(code) <= set(ALPHABET)
    assert KEY.read(code) == marker
    assert KEY.read(code.lower()) == marker


@given(markers)
def test_letters_that_look_like_digits_read_as_them(marker: Marker) -> None:
    code = KEY.write(marker)
    assert KEY.read(code.replace("0", "O").replace("1", "l")) == marker


@given(markers, st.integers(0, MARKER_CHARACTERS - 1), st.integers(1, 31))
def test_a_changed_character_fails_the_tag(marker: Marker, place: int, step: int) -> None:
    code = KEY.write(marker)
    other = ALPHABET[(ALPHABET.index(code[place]) + step) % len(ALPHABET)]
    assert KEY.read(code[:place] + other + code[place + 1 :]) is None


@given(markers)
def test_a_code_of_another_secret_is_not_ours(marker: Marker) -> None:
    assert OTHER.read(KEY.write(marker)) is None
    assert MarkerIndex(OTHER, [marker]).search(KEY.write(marker)) == ()


@given(st.text())
def test_no_text_makes_reading_or_searching_raise(text: str) -> None:
    assert KEY.read(text) is None
    assert MarkerIndex(KEY).search(text) == ()


@given(st.text(alphabet=ALPHABET.lower(), min_size=30, max_size=200))
def test_random_codes_are_no_markers(text: str) -> None:
    planted = [Marker(tenant=1, request=2, page=page) for page in range(64)]
    assert MarkerIndex(KEY, planted).search(text) == ()


@given(markers, outside, outside, cases)
def test_a_whole_code_is_found_without_being_told(
    marker: Marker, before: str, after: str, case: Callable[[str], str]
) -> None:
    text = before + case(KEY.write(marker)) + after
    (hit,) = MarkerIndex(KEY).search(text)
    assert hit.marker == marker
    assert hit.offset == len(before)
    assert hit.is_whole


@given(markers, st.text(alphabet=ALPHABET, max_size=30), st.text(alphabet=ALPHABET, max_size=30))
def test_a_code_inside_a_run_of_letters_is_found(marker: Marker, before: str, after: str) -> None:
    hits = MarkerIndex(KEY).search(before + KEY.write(marker) + after)
    assert [(hit.marker, hit.offset) for hit in hits] == [(marker, len(before))]


@given(
    markers,
    st.integers(0, MARKER_CHARACTERS),
    st.integers(FRAGMENT_CHARACTERS, MARKER_CHARACTERS),
    cases,
)
def test_a_planted_code_is_known_by_its_fragments(
    marker: Marker, start: int, length: int, case: Callable[[str], str]
) -> None:
    fragment = KEY.write(marker)[start : start + length]
    hits = MarkerIndex(KEY, [marker]).search(f"was: {case(fragment)}.")
    if len(fragment) < FRAGMENT_CHARACTERS:
        assert hits == ()
    else:
        assert [(hit.marker, hit.offset, hit.length) for hit in hits] == [
            (marker, len("was: "), len(fragment))
        ]


def test_each_of_many_codes_in_one_text_is_found() -> None:
    planted = [Marker(tenant=7, request=11, page=page) for page in range(50)]
    text = "".join(KEY.write(marker) for marker in planted)
    assert [hit.marker for hit in MarkerIndex(KEY).search(text)] == planted


def test_no_two_pages_of_a_request_share_a_window_of_eight() -> None:
    # A request of 1,048,577 tokens at 64 a page. Source: detection.md A4.
    codes = [KEY.write(Marker(tenant=1, request=5, page=page)) for page in range(16_385)]
    windows = [code[at : at + 8] for code in codes for at in range(MARKER_CHARACTERS - 7)]
    assert len(set(windows)) == len(windows)


def test_every_character_of_a_code_is_as_likely_at_every_place() -> None:
    codes = [KEY.write(Marker(tenant=1, request=5, page=page)) for page in range(16_385)]
    for place in range(MARKER_CHARACTERS):
        counts = Counter(code[place] for code in codes)
        # 512 each; seeds that hold letters and digits side by side favour digits a little.
        assert set(counts) == set(ALPHABET)
        assert max(counts.values()) < 2 * len(codes) / len(ALPHABET)
        assert min(counts.values()) > 0.5 * len(codes) / len(ALPHABET)


def test_seeds_of_codes_can_be_told_from_prose() -> None:
    codes = [KEY.write(Marker(tenant=1, request=5, page=page)) for page in range(10_000)]
    assert all(map(has_seeds, codes))


@pytest.mark.parametrize(
    "marker",
    [
        Marker(tenant=2**20, request=0, page=0),
        Marker(tenant=0, request=2**24, page=0),
        Marker(tenant=0, request=0, page=2**21),
        Marker(tenant=-1, request=0, page=0),
    ],
)
def test_a_field_that_does_not_fit_is_refused(marker: Marker) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        KEY.write(marker)


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_two_seeds_give_other_requests(one: bytes, other: bytes) -> None:
    first = [derive_request(one, ordinal) for ordinal in range(12)]
    second = [derive_request(other, ordinal) for ordinal in range(12)]
    assert (first == second) == (one == other)
