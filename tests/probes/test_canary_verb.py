"""The verb canary: wrong usage ends in one line, and nothing is asked before."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from common.exits import UsageError
from common.registry import load_plugins
from fleet.reading import Role
from probes.arguments import VerbParser
from probes.canary.arguments import RoundsAsked, add_round_options, read_rounds_asked
from probes.canary.rounds import Way

KEYS = {"PAGEWARDEN_TENANT_A_KEY": "key-a", "PAGEWARDEN_TENANT_B_KEY": "key-b"}
BASE = ["--engine", "sglang", "--target", "http://127.0.0.1:21000", "--model", "m"]


def read(*words: str, environment: dict[str, str] | None = None) -> RoundsAsked:
    load_plugins("fleet.engines")
    load_plugins("probes.plans")
    parser = VerbParser(verb="canary", summary="")
    add_round_options(parser)
    options: argparse.Namespace = parser.parse_args([*BASE, *words])
    return read_rounds_asked(options, KEYS if environment is None else environment)


def test_the_defaults_are_one_boundary_round_through_the_router() -> None:
    asked = read()
    assert (asked.way, asked.plans, asked.rounds) == (Way.ROUTER, ("boundary",), 1)
    assert asked.budget_tokens is None
    assert asked.acceptance is None


def test_a_unified_node_needs_no_other() -> None:
    asked = read("--via", "pair", "--unified", "http://127.0.0.1:7/")
    assert [(node.role, node.url) for node in asked.nodes] == [(Role.UNIFIED, "http://127.0.0.1:7")]


def test_keys_come_from_files_and_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-secret\n")
    asked = read("--tenant-a-key-file", str(file), "--tenant-b-key-file", str(file))
    assert asked.tenant_a.key == asked.tenant_b.key == "sk-secret"
    assert "sk-secret" not in repr(asked)


@pytest.mark.parametrize(
    "words",
    [
        ["--accept-exposure", "why"],
        ["--as", "Ada"],
        ["--accept-exposure", " ", "--as", "Ada"],
        ["--accept-exposure", "why", "--as", ""],
        ["--rounds", "0"],
        ["--rounds", "1_0"],
        ["--budget-tokens", "-5"],
        ["--budget-tokens", "many"],
        ["--plan", "no-such-plan"],
        ["--via", "air"],
        ["--via", "pair", "--prefill", "http://127.0.0.1:1"],
        ["--prefill", "ftp://127.0.0.1:1"],
        ["--decode", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:1/"],
        ["--tenant-a-key-file", "/no/such/file"],
    ],
)
def test_wrong_usage_is_one_line(words: list[str]) -> None:
    with pytest.raises(UsageError) as stopped:
        read(*words)
    assert "\n" not in str(stopped.value)


def test_a_missing_tenant_key_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="tenant b"):
        read(environment={"PAGEWARDEN_TENANT_A_KEY": "key-a"})
