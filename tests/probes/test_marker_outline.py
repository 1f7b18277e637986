"""The outline of a text leaves out nothing that a seed or an encoding could need."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.marking.alphabet import ascii_bytes, read_text
from probes.marking.code import Marker, MarkerKey
from probes.marking.evidence import View
from probes.marking.outline import outline_of
from probes.marking.seeds import likely_windows
from probes.marking.sieve import BASE64_BETWEEN, BASE64_GROUPS, HEX_BETWEEN, HEX_PAIRS, ROLES
from tests.probes.marker_texts import ALARMING, HOSTILE, chance

KEY = MarkerKey(b"a secret of the tests")
CODE = KEY.write(Marker(tenant=7, request=3, page=5))
WORDS = "the team keeps a list of all that was said and nobody reads it twice. "

pieces = st.one_of(
    st.text(alphabet="0123456789abcdefxX :-", max_size=80),
    st.text(alphabet="lower words and 2 A", max_size=60),
    st.lists(
        st.builds(
            lambda lead, byte, split: f"{lead}{byte:02x}{split}",
            st.sampled_from(["", "x", "0x", "\\x", "0X", " ", ", 0x", "xx"]),
            st.integers(0x30, 0x7A),
            st.sampled_from(["", " ", "x", "-"]),
        ),
        min_size=8,
        max_size=30,
    ).map("".join),
    st.builds(
        lambda name, seed: ALARMING[name](chance(seed), CODE),
        st.sampled_from([*ALARMING]),
        st.integers(0, 99),
    ),
    st.builds(
        lambda name, seed: HOSTILE[name](chance(seed), 200),
        st.sampled_from([*HOSTILE]),
        st.integers(0, 99),
    ),
    st.integers(1, 9).map(lambda count: WORDS * count),
    st.text(max_size=9),
)
texts = st.lists(pieces, max_size=6).map("".join)


def in_order(raw: bytes, between: bytes) -> bytes:
    return raw.translate(None, between)


def has_base64(raw: bytes) -> bool:
    """Answer whether whole groups in a row are base 64 of letters and digits, one by one."""
    roles = in_order(raw, BASE64_BETWEEN).translate(ROLES)
    size = 4 * BASE64_GROUPS
    return any(
        all(roles[first + at] >> at % 4 & 1 for at in range(size))
        for first in range(len(roles) - size + 1)
    )


def has_hex(raw: bytes) -> bool:
    """Answer whether pairs in a row are the hex of letters and digits."""
    digits = in_order(re.sub(b"0[xX]", b"xx", raw), HEX_BETWEEN)
    return re.search(b"(?:[3-7][0-9a-fA-F]){%d}" % HEX_PAIRS, digits) is not None


@given(texts)
def test_an_encoding_that_is_ruled_out_has_no_candidate(text: str) -> None:
    raw = ascii_bytes(text)
    views = outline_of(raw).views
    assert View.BASE64 in views or not has_base64(raw)
    assert View.HEX in views or not has_hex(raw)


@given(texts)
def test_no_window_that_may_be_a_seed_is_left_out_and_none_comes_in(text: str) -> None:
    outline = outline_of(ascii_bytes(text))
    whole, excerpt = outline.values(), outline.excerpt
    kept = np.flatnonzero(likely_windows(excerpt.values))
    assert excerpt.origins(kept).tolist() == np.flatnonzero(likely_windows(whole)).tolist()
    assert whole[excerpt.origins(kept)].tolist() == excerpt.values[kept].tolist()


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=300))
def test_an_outline_reads_as_the_text_does(text: str) -> None:
    assert outline_of(ascii_bytes(text)).values().tolist() == read_text(text).tolist()


@pytest.mark.parametrize("text", [WORDS * 50, "Release 2019 of the box, 3,454 %. " + WORDS * 50])
def test_of_words_with_a_few_figures_little_is_read_and_no_encoding_is_looked_for(
    text: str,
) -> None:
    outline = outline_of(ascii_bytes(text))
    assert outline.views == frozenset()
    assert len(outline.excerpt.values) < len(text) / 20


def test_what_is_nothing_but_codes_is_read_whole() -> None:
    outline = outline_of((CODE * 9).encode())
    assert outline.excerpt.blocks is None
    assert outline.excerpt.values.tolist() == outline.values().tolist()
