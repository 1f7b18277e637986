"""Options that name nodes, keys and figures on the command line, and what they amount to."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import NoReturn

from common.exits import UsageError
from common.registry import load_plugins
from fleet.address import parse_url
from fleet.capture_figures import parse_context, parse_headroom
from fleet.contract import ENGINES, AddressRefused
from fleet.endpoint import place_of
from fleet.live import NodeAddress
from fleet.reading import DEFAULT_HEADROOM, Role

NODE_KEY_VARIABLE = "PAGEWARDEN_NODE_KEY"
ADMIN_KEY_VARIABLE = "PAGEWARDEN_ADMIN_KEY"
ROUTER_KEY_VARIABLE = "PAGEWARDEN_ROUTER_KEY"


class VerbParser(argparse.ArgumentParser):
    """Takes options only in full and says in one line what is wrong with them."""

    def __init__(self, *, verb: str, summary: str) -> None:
        super().__init__(prog=f"pagewarden {verb}", description=summary, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing the usage and ending with argparse's own code."""
        raise UsageError(f"{self.prog.removeprefix('pagewarden ')}: {' '.join(message.split())}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAsked:
    """Which live nodes a person wants read, and how; keys are never shown."""

    engine: str
    nodes: tuple[NodeAddress, ...]
    router_url: str
    headroom: Decimal
    context: int | None
    wait_s: float
    key: str = field(default="", repr=False)
    admin_key: str = field(default="", repr=False)
    router_key: str = field(default="", repr=False)


def add_node_options(parser: argparse.ArgumentParser, *, engine_is_required: bool = True) -> None:
    """Add every option that says which live nodes to read."""
    load_plugins("fleet.engines")
    parser.add_argument("--engine", required=engine_is_required, choices=[*ENGINES.all()])
    for role in Role:
        parser.add_argument(
            f"--{role}", action="append", default=[], metavar="URL", help=f"a {role} node"
        )
    parser.add_argument("--router", default="", metavar="URL", help="find further nodes there")
    parser.add_argument("--wait", default="0", metavar="SECONDS", help="retry until nodes are up")
    for name, variable in (
        ("--key-file", NODE_KEY_VARIABLE),
        ("--admin-key-file", ADMIN_KEY_VARIABLE),
        ("--router-key-file", ROUTER_KEY_VARIABLE),
    ):
        parser.add_argument(name, metavar="FILE", help=f"else the variable {variable}")
    add_figure_options(parser)


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add what a judgement is printed and written as, and whose advisories count."""
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML for a CI system too")
    parser.add_argument("--advisories", metavar="DIR", help="a folder of OSV files of your own")


def names_nodes(options: argparse.Namespace) -> bool:
    """Answer whether a node or a router is named at all."""
    return bool(options.router or any(getattr(options, role) for role in Role))


def add_figure_options(parser: argparse.ArgumentParser) -> None:
    """Add the figures that a person may ask for."""
    parser.add_argument("--context", metavar="N", help="advertised tokens; only ever raises")
    parser.add_argument(
        "--headroom", metavar="FACTOR", help=f"wanted pool / context ({DEFAULT_HEADROOM})"
    )


def read_nodes_asked(options: argparse.Namespace, environment: Mapping[str, str]) -> NodesAsked:
    """Answer what the options amount to. Raises UsageError."""
    nodes = tuple(_addresses(options))
    if options.router:
        _check_url(options.router)
    if not nodes and not options.router:
        raise UsageError(
            "no node is named: give --prefill and --decode, or --unified, or --router with its URL"
        )
    return NodesAsked(
        engine=options.engine,
        nodes=nodes,
        router_url=options.router.rstrip("/"),
        headroom=read_headroom(options) or DEFAULT_HEADROOM,
        context=read_context(options),
        wait_s=_read_seconds(options.wait),
        key=read_key(options.key_file, NODE_KEY_VARIABLE, environment),
        admin_key=read_key(options.admin_key_file, ADMIN_KEY_VARIABLE, environment),
        router_key=read_key(options.router_key_file, ROUTER_KEY_VARIABLE, environment),
    )


def read_headroom(options: argparse.Namespace) -> Decimal | None:
    """Answer the headroom that was asked for, or None. Raises UsageError below 1."""
    return None if options.headroom is None else parse_headroom(options.headroom, "--headroom")


def read_context(options: argparse.Namespace) -> int | None:
    """Answer the context that was asked for, or None. Raises UsageError."""
    if options.context is None:
        return None
    word = options.context
    # A dozen digits are more than any context; int() would also take "1_000" and other scripts.
    is_number = word.isascii() and word.isdecimal() and len(word) <= 12  # noqa: PLR2004
    return parse_context(int(word) if is_number else word, "--context")


def read_key(path: str | None, variable: str, environment: Mapping[str, str]) -> str:
    """Answer a key from its file, else from its variable, else none. Raises UsageError."""
    if path is None:
        return environment.get(variable, "").strip()
    try:
        key = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is no text"
        raise UsageError(f"the key file {path} cannot be read: {why}") from None
    if not key:
        raise UsageError(f"the key file {path} is empty")
    return key


def _addresses(options: argparse.Namespace) -> Iterator[NodeAddress]:
    seen: set[str] = set()
    for role in Role:
        for number, url in enumerate(getattr(options, role), start=1):
            address = _check_url(url)
            if address in seen:
                raise UsageError(f"the node {address} is named twice")
            seen.add(address)
            yield NodeAddress(
                name=f"{role}-{number}", url=address, role=role, engine=options.engine
            )


def _check_url(url: str) -> str:
    try:
        parse_url(url)
    except AddressRefused as refusal:
        raise UsageError(str(refusal)) from None
    return place_of(url)


def _read_seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UsageError("--wait is no number of seconds from 0 on")
    return seconds
