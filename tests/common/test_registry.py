"""Plug-ins are found by key; a clash stops the start."""

from __future__ import annotations

import pytest

from common.registry import DuplicateKey, Registry, UnknownKey


def test_a_key_that_two_classes_want_stops_the_start() -> None:
    family: Registry[object] = Registry("gate")
    family.register("one")(object)
    with pytest.raises(DuplicateKey, match="'one'"):
        family.register("one")(object)


def test_an_unknown_key_names_family_and_key() -> None:
    with pytest.raises(UnknownKey, match="no lever is called 'gone'"):
        Registry[object]("lever").get("gone")
