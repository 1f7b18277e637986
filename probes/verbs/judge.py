"""The verb ``judge``: the same gates over saved answers, and what changed since older ones."""

from __future__ import annotations

import sys
from pathlib import Path

from common.exits import UsageError
from fleet.captures import LARGEST_BYTES, Capture, parse_capture
from fleet.reading import FleetReading
from probes.answering import exit_code, fleet_of, refuse_lowered_context, render
from probes.arguments import VerbParser, add_figure_options, read_context, read_headroom
from probes.drift import compare_fleets
from probes.judge import judge_fleet

SUMMARY = "judge saved answers"
_STANDARD_INPUT = "-"


def main(argv: list[str]) -> int:
    """Judge a capture file; answer the verdict's exit code. Raises UsageError."""
    parser = VerbParser(verb="judge", summary=SUMMARY)
    parser.add_argument("file", metavar="FILE", help="a capture; - reads standard input")
    parser.add_argument("--before", metavar="FILE", help="an older capture: tell drift too")
    add_figure_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(argv)
    if options.file == options.before == _STANDARD_INPUT:
        raise UsageError("standard input can be only one of FILE and --before")
    headroom, context = read_headroom(options), read_context(options)
    capture = _load(options.file)
    promised = [one for one in (capture.context, context) if one is not None]
    fleet = fleet_of(
        capture.nodes,
        headroom=headroom or capture.headroom,
        advertised=max(promised, default=None),
    )
    refuse_lowered_context(fleet, context, "--context")
    refuse_lowered_context(fleet, capture.context, "the context of the capture")
    also = compare_fleets(_readings(_load(options.before)), fleet) if options.before else ()
    judgement = judge_fleet(fleet, also=also)
    print(render(judgement, as_json=options.json))
    return exit_code(judgement.verdict)


def _readings(capture: Capture) -> FleetReading:
    return fleet_of(capture.nodes, headroom=capture.headroom, advertised=capture.context)


def _load(path: str) -> Capture:
    try:
        return parse_capture(_read(path))
    except UsageError as fault:
        name = "standard input" if path == _STANDARD_INPUT else path
        raise UsageError(f"{name}: {fault}") from None


def _read(path: str) -> bytes:
    # One byte more than is taken tells a file that is too large without reading all of it.
    if path == _STANDARD_INPUT:
        return sys.stdin.buffer.read(LARGEST_BYTES + 1)
    try:
        with Path(path).open("rb") as file:
            return file.read(LARGEST_BYTES + 1)
    except OSError as fault:
        raise UsageError(f"it cannot be read: {fault.strerror}") from None
    except ValueError:
        raise UsageError("it is no name of a file") from None
