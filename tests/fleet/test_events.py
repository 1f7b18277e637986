"""Rules of cutting bytes into server-sent events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.events import EventReader

Lines = tuple[bytes, ...]


def read(raw: bytes, borders: list[int] | None = None) -> tuple[list[Lines], list[bytes]]:
    reader = EventReader()
    places = [0, *sorted(borders or []), len(raw)]
    events: list[Lines] = []
    for start, end in pairwise(places):
        events += reader.feed(raw[start:end])
    return events + reader.close(), reader.other


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: a\n\n", [(b"a",)]),
        (b"data:a\n\n", [(b"a",)]),
        (b"data:  a\n\n", [(b" a",)]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [(b"a",), (b"b",)]),
        (b"data: a\r\rdata: b\r\r", [(b"a",), (b"b",)]),
        (b"data: a\r\n\ndata: b\n\r\n", [(b"a",), (b"b",)]),
        (b"data: a\ndata: b\n\n", [(b"a", b"b")]),
        (b"data\n\n", [(b"",)]),
        (b"\n\n\ndata: a\n\n\n\n", [(b"a",)]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"a",)]),
        (b"event: message\ndata: a\n\n", [(b"a",)]),
        (b"data: a: b\n\n", [(b"a: b",)]),
        # A browser would drop what is not ended; here it may be what somebody else wrote.
        (b"data: a\n\ndata: b", [(b"a",), (b"b",)]),
        (b"", []),
        (b"\n", []),
    ],
)
def test_events_end_at_a_blank_line(raw: bytes, events: list[Lines]) -> None:
    assert read(raw) == (events, [])


def test_what_is_no_data_is_kept_beside_it() -> None:
    raw = b": a comment\nid: 7\nevent: odd\nretry: 5\nevent: ping\ndata: a\n\nplain text\n"
    events, other = read(raw)
    assert events == [(b"a",)]
    assert other == [b": a comment", b"id: 7", b"event: odd", b"retry: 5", b"plain text"]


STREAMS = st.lists(
    st.sampled_from([b"data: ", b"data:", b"x", b"\n", b"\r", b"\r\n", b":", b"\xef\xbb\xbf"])
    | st.binary(max_size=4),
    max_size=20,
).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 80), max_size=8))
def test_the_borders_of_parts_change_nothing(raw: bytes, borders: list[int]) -> None:
    assert read(raw, [min(one, len(raw)) for one in borders]) == read(raw)


@given(STREAMS)
def test_no_sign_is_lost(raw: bytes) -> None:
    events, other = read(raw)
    kept = b"".join([line for lines in events for line in lines] + other)
    for sign in set(raw) - set(b"data:\r\n \xef\xbb\xbfevntmsgrpioclhuk"):
        assert kept.count(sign) == raw.count(sign)
