"""The verb ``judge``: the same gates over saved answers, and what changed since older ones."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from common.exits import UsageError
from fleet.captures import LARGEST_BYTES, Capture, parse_capture
from fleet.reading import FleetReading
from probes.advising import gates_with, shelf_in, shelf_of
from probes.answering import exit_code, fleet_of, refuse_lowered_context
from probes.arguments import (
    VerbParser,
    add_figure_options,
    add_report_options,
    read_context,
    read_headroom,
)
from probes.artefacts import read_small
from probes.canary.saved import judge_saved
from probes.drift import compare_fleets
from probes.exercised import refusals_exercised
from probes.judge import judge_fleet
from probes.reporting import report
from probes.retro import History, look_back
from probes.retro_answer import judge_history, render_history, retro_document
from probes.retro_records import BadRecord, Records, Samples, is_export, read_log

SUMMARY = "judge saved answers"
_STANDARD_INPUT = "-"
_LARGEST_RECORD_BYTES = 512 * 1024 * 1024


def main(argv: list[str]) -> int:
    """Judge a capture file; answer the verdict's exit code. Raises UsageError."""
    parser = VerbParser(verb="judge", summary=SUMMARY)
    parser.add_argument("file", metavar="FILE", nargs="?", help="a capture; - reads standard input")
    parser.add_argument("--before", metavar="FILE", help="an older capture: tell drift too")
    parser.add_argument(
        "--retro",
        metavar="RECORD",
        nargs="+",
        help="since when was the band open? Prometheus range exports and start-up logs",
    )
    parser.add_argument(
        "--retro-version", metavar="V", help="what the prefill nodes ran where no record tells it"
    )
    add_figure_options(parser)
    add_report_options(parser)
    options = parser.parse_args(argv)
    if options.retro is not None:
        return _look_back(options)
    if options.file is None:
        raise UsageError("judge: the following arguments are required: FILE")
    if options.retro_version is not None:
        raise UsageError("judge: --retro-version belongs to --retro")
    return _judge_capture(options)


def _judge_capture(options: argparse.Namespace) -> int:
    if options.file == options.before == _STANDARD_INPUT:
        raise UsageError("standard input can be only one of FILE and --before")
    headroom, context = read_headroom(options), read_context(options)
    named = shelf_in(options.advisories)
    capture = _load(options.file)
    promised = [one for one in (capture.context, context) if one is not None]
    fleet = fleet_of(
        capture.nodes,
        headroom=headroom or capture.headroom,
        advertised=max(promised, default=None),
    )
    fleet = replace(fleet, refused=refusals_exercised(fleet.readings, capture.rounds))
    refuse_lowered_context(fleet, context, "--context")
    refuse_lowered_context(fleet, capture.context, "the context of the capture")
    moved = compare_fleets(_readings(_load(options.before)), fleet) if options.before else ()
    also = (*moved, *judge_saved(capture.rounds))
    gates = gates_with(named + shelf_of(capture.advisories))
    judgement = judge_fleet(fleet, gates=gates, also=also)
    report(judgement, options, name="judge")
    return exit_code(judgement.verdict)


def _look_back(options: argparse.Namespace) -> int:
    given = (options.file, options.before, options.context, options.headroom, options.advisories)
    if any(one is not None for one in given):
        raise UsageError("judge: --retro takes records only, no capture and none of its options")
    history = _history(options)
    judgement = judge_history(history)
    if options.json:
        report(judgement, options, name="retro", text=json.dumps(retro_document(history)))
    else:
        report(judgement, options, name="retro", more=render_history(history))
    return exit_code(judgement.verdict)


def _history(options: argparse.Namespace) -> History:
    """Answer what the records come to. Raises UsageError for one that cannot be used."""
    samples, records = Samples(), Records()
    for word in options.retro:
        path = Path(word)
        text = read_small(path, what="the record", largest_bytes=_LARGEST_RECORD_BYTES)
        try:
            if is_export(text):
                samples.take(text, name=path.name)
            else:
                records += read_log(text.decode("utf-8", errors="replace"), instance=path.stem)
        except BadRecord as fault:
            raise UsageError(f"{path}: {fault}") from None
    records += samples.records()
    return look_back(records.stretches, version=options.retro_version, notes=records.notes)


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
