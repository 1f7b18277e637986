"""Options that name nodes, keys and figures."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from common.exits import UsageError
from fleet.reading import Role
from probes.arguments import NodesAsked, VerbParser, add_node_options, read_nodes_asked

PREFILL, DECODE = "http://127.0.0.1:21001", "http://127.0.0.1:21002"


def asked(*arguments: str, environment: Mapping[str, str] | None = None) -> NodesAsked:
    parser = VerbParser(verb="gate", summary="")
    add_node_options(parser)
    options = parser.parse_args(["--engine", "sglang", *arguments])
    return read_nodes_asked(options, environment or {})


def test_nodes_are_named_by_role_and_order() -> None:
    found = asked("--decode", DECODE, "--prefill", PREFILL, "--decode", "http://127.0.0.1:21003/")
    assert [(node.name, node.role, node.url) for node in found.nodes] == [
        ("prefill-1", Role.PREFILL, PREFILL),
        ("decode-1", Role.DECODE, DECODE),
        ("decode-2", Role.DECODE, "http://127.0.0.1:21003"),
    ]
    assert found.headroom == Decimal("1.25")
    assert found.context is None
    assert found.wait_s == 0


def test_a_router_alone_is_enough() -> None:
    assert asked("--router", "http://127.0.0.1:21000/").router_url == "http://127.0.0.1:21000"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ([], "no node is named"),
        (["--prefill", PREFILL, "--decode", PREFILL + "/"], "named twice"),
        (["--prefill", "127.0.0.1:21001"], "does not start with http"),
        (["--prefill", "ftp://127.0.0.1"], "does not start with http"),
        (["--router", "http://user:pw@127.0.0.1"], "user or password"),
        (["--unified", PREFILL, "--headroom", "0.5"], "headroom"),
        (["--unified", PREFILL, "--context", "0"], "context"),
        (["--unified", PREFILL, "--context", "1_000"], "context"),
        (["--unified", PREFILL, "--wait", "soon"], "--wait"),
        (["--unified", PREFILL, "--wait", "-1"], "--wait"),
        (["--unified", PREFILL, "--wait", "inf"], "--wait"),
        (["--unified", PREFILL, "--wait", "nan"], "--wait"),
        (["--unified", PREFILL, "--key", "sk-1"], "--key"),
        (["--unifi", PREFILL], "--unifi"),
        (["--engine", "nothing", "--unified", PREFILL], "--engine"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], match: str) -> None:
    with pytest.raises(UsageError, match=match) as refused:
        asked(*arguments)
    assert "\n" not in str(refused.value)
    assert "pw@" not in str(refused.value)


def test_keys_come_from_files_before_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("  from-file\n", encoding="utf-8")
    environment = {"PAGEWARDEN_NODE_KEY": "from-variable", "PAGEWARDEN_ADMIN_KEY": "admin\n"}
    found = asked("--unified", PREFILL, "--key-file", str(path), environment=environment)
    assert (found.key, found.admin_key, found.router_key) == ("from-file", "admin", "")
    found = asked("--unified", PREFILL, environment=environment)
    assert found.key == "from-variable"


def test_keys_are_never_shown() -> None:
    found = asked("--unified", PREFILL, environment={"PAGEWARDEN_NODE_KEY": "sk-very-secret"})
    assert "sk-very-secret" not in repr(found)


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_a_key_file_that_holds_no_key_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="key file"):
        asked("--unified", PREFILL, "--admin-key-file", str(path))
