"""`drill explain`: which reads of foreign pages the protocol allows, and how each comes about."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import NoReturn

from packaging.version import InvalidVersion, Version

from drill.protocol.compare import Comparison, compare
from drill.protocol.guards import (
    GUARD_WORDS,
    ProtocolGuards,
    guards_named,
    guards_of_version,
)
from drill.protocol.report import Explanation, Limits, explanation_of
from drill.protocol.state import EQUAL, UNEQUAL
from drill.settings import OLDEST_VERSION, WrongFigure
from drill.wire import dumps

EXIT_NONE = 0
EXIT_REACHABLE = 1
EXIT_USAGE = 4

_NO_GUARD = "none"
_EVERY_GUARD = "all"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; its caller decides on the exit code."""

    def error(self, message: str) -> NoReturn:
        raise WrongFigure(message)


def main(argv: list[str]) -> int:
    """Explain; answer 1 if a foreign read can be reached, 0 if none can, 4 for wrong usage."""
    try:
        options = _options(argv)
        guards = _guards(options)
    except WrongFigure as error:
        sys.stderr.write(f"drill explain: {error}\n")
        return EXIT_USAGE
    limits = Limits(options.limits)
    if options.compare:
        setup = UNEQUAL if limits is Limits.UNEQUAL else EQUAL
        comparison = compare(replace(setup, has_tier=options.tier))
        _write(comparison, is_json=options.json)
        return EXIT_NONE if comparison.smallest_enough else EXIT_REACHABLE
    told = explanation_of(
        guards, version=options.engine_version, limits=limits, has_tier=options.tier
    )
    _write(told, is_json=options.json)
    return EXIT_REACHABLE if told.is_reachable else EXIT_NONE


def _write(told: Explanation | Comparison, *, is_json: bool) -> None:
    sys.stdout.write(dumps(told.as_json()) + "\n" if is_json else told.as_text())


def _options(argv: list[str]) -> argparse.Namespace:
    names = "\n".join(f"  {name:<17} {words}" for name, words in GUARD_WORDS.items())
    parser = _Parser(
        prog="drill explain",
        description="Explore the drill's protocol to its last state, and tell in words how one "
        "request can come to read what another wrote.",
        epilog=f"guards:\n{names}\n\nexit codes: 0 no foreign read can be reached, 1 one can, "
        "4 wrong usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--engine-version", metavar="VERSION", help="guards that it has by default")
    which.add_argument("--guards", metavar="A,B", help="these guards; 'none' (usual) or 'all'")
    which.add_argument(
        "--compare", action="store_true", help="every set of guards, in about half a minute"
    )
    parser.add_argument(
        "--limits",
        choices=[str(one) for one in Limits],
        default=str(Limits.UNEQUAL),
        help="whether prefill refuses what decode admits (unequal, as in the incident)",
    )
    parser.add_argument(
        "--tier", action="store_true", help="decode copies finished pages to a host tier"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args(argv)


def _guards(options: argparse.Namespace) -> ProtocolGuards:
    """Answer the guards that were asked for. Raises WrongFigure."""
    if options.engine_version is not None:
        return guards_of_version(_version(options.engine_version))
    asked = _NO_GUARD if options.guards is None else options.guards
    if asked == _NO_GUARD:
        return ProtocolGuards()
    if asked == _EVERY_GUARD:
        return guards_named(GUARD_WORDS)
    return guards_named(name.strip() for name in asked.split(","))


def _version(text: str) -> Version:
    try:
        version = Version(text)
    except InvalidVersion:
        raise WrongFigure(f"engine version {text!r} cannot be read") from None
    if version < OLDEST_VERSION:
        raise WrongFigure(f"engine version {text} is older than {OLDEST_VERSION}")
    return version
