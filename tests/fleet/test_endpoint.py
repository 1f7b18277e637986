"""Rules of matching addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.endpoint import is_same_place, may_be_same_place, place_of


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("http://10.0.0.1:80", "http://10.0.0.1/"),
        ("https://Node-1.Internal", "https://node-1.internal:443/"),
        ("HTTP://10.0.0.1:30000//", "http://10.0.0.1:30000"),
        ("http://10.0.0.1:30000@3", "http://10.0.0.1:30000"),
        ("http://[FD00::1]:8000", "http://[fd00:0:0::1]:8000/"),
        ("grpc://10.0.0.1:1/", "grpc://10.0.0.1:1"),
    ],
)
def test_spelling_does_not_tell_places_apart(first: str, second: str) -> None:
    assert is_same_place(first, second)
    assert not may_be_same_place(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("http://10.0.0.1:30000", "http://10.0.0.1:30001"),
        ("http://10.0.0.1:30000", "https://10.0.0.1:30000"),
        ("http://10.0.0.1:30000", "http://10.0.0.2:30000"),
        ("http://10.0.0.1:30000", "http://10.0.0.1:30000/other"),
    ],
)
def test_other_places_stay_other(first: str, second: str) -> None:
    assert not is_same_place(first, second)
    assert not may_be_same_place(first, second)


def test_spellings_of_this_machine_are_neither_the_same_nor_different() -> None:
    names = ("http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1")
    for first in names:
        for second in names:
            if first != second:
                assert not is_same_place(first, second)
                assert may_be_same_place(first, second)
    assert not may_be_same_place("http://localhost:1", "http://127.0.0.1:2")


@given(st.text(max_size=60))
def test_a_place_is_its_own_place(text: str) -> None:
    assert place_of(place_of(text)) == place_of(text)
