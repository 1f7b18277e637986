"""Gives a judgement to who asked: on standard output, and as a file for a CI system."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common.clock import now
from probes.answering import render
from probes.artefacts import write_report
from probes.judgement import Judgement
from probes.junit import render_junit


def report(
    judgement: Judgement,
    options: argparse.Namespace,
    *,
    name: str,
    text: str = "",
    more: str = "",
) -> None:
    """Write what was asked for, the file first. Raises UsageError where it cannot be written.

    ``text`` takes the place of the judgement; ``more`` follows its table.
    """
    if options.junit is not None:
        write_report(Path(options.junit), render_junit(judgement, name=name, at=now()))
    shown = text or render(judgement, as_json=options.json)
    sys.stdout.write("\n\n".join(filter(None, (shown, more))) + "\n")
