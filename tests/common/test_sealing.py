"""Sealed values open only where they belong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.sealing import SealBroken, seal, unseal


@given(st.text(), st.text(min_size=1))
def test_a_sealed_text_opens_in_its_place(plain: str, place: str) -> None:
    assert unseal(seal(plain, place=place), place=place) == plain


@given(st.text())
def test_a_sealed_text_does_not_open_in_another_row(plain: str) -> None:
    sealed = seal(plain, place="fleet_credential:1:sealed")
    with pytest.raises(SealBroken):
        unseal(sealed, place="fleet_credential:2:sealed")


def test_one_altered_bit_is_noticed() -> None:
    sealed = bytearray(seal("key", place="p"))
    sealed[-1] ^= 1
    with pytest.raises(SealBroken):
        unseal(bytes(sealed), place="p")


def test_the_same_text_never_seals_alike() -> None:
    assert seal("key", place="p") != seal("key", place="p")


def test_a_truncated_value_is_broken_not_a_crash() -> None:
    with pytest.raises(SealBroken):
        unseal(b"short", place="p")
