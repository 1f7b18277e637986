"""What the starter of engines promises without starting one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engines.lane.folders import HERE, PINS, VARIABLE, engines_home

_PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+ \\\n    --hash=sha256:[0-9a-f]{64}\n")


@pytest.mark.parametrize("name", sorted(path.stem for path in PINS.glob("*.txt")))
def test_every_package_is_pinned_with_a_hash_but_torch(name: str) -> None:
    head, _, body = (PINS / f"{name}.txt").read_text(encoding="utf-8").partition("\n")

    assert head.startswith("# ")
    if name == "torch":
        assert body == "torch==2.13.0+cpu\n"
    else:
        assert body
        assert _PIN.sub("", body) == ""


def test_engines_are_installed_outside_the_checkout() -> None:
    root = HERE.parents[2]

    for environment in ({}, {"XDG_CACHE_HOME": "/somewhere"}, {VARIABLE: "~/engines"}):
        home = engines_home(environment)
        assert home.is_absolute()
        assert root not in home.parents


def test_the_variable_names_the_folder() -> None:
    assert engines_home({VARIABLE: "/somewhere/else"}) == Path("/somewhere/else")
