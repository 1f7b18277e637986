"""From saved or fresh answers of nodes to a judgement on standard output and an exit code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal

from common.exits import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_TOOL, UsageError
from common.verdicts import Verdict
from fleet.contract import NodeCapture
from fleet.keyless import read_capture
from fleet.reading import FleetReading
from probes.judgement import Judgement
from probes.limits import least_context
from probes.table import render_table

_CODES = {
    Verdict.PASS: EXIT_PASS,
    Verdict.FAIL: EXIT_FAIL,
    Verdict.INCONCLUSIVE: EXIT_INCONCLUSIVE,
    Verdict.NOT_EXERCISED: EXIT_INCONCLUSIVE,
    Verdict.ERROR: EXIT_TOOL,
}


def fleet_of(
    captures: Iterable[NodeCapture], *, headroom: Decimal, advertised: int | None
) -> FleetReading:
    """Answer the readings that saved answers amount to."""
    readings = tuple(map(read_capture, captures))
    return FleetReading(readings=readings, headroom=headroom, advertised=advertised)


def refuse_lowered_context(fleet: FleetReading, context: int | None, place: str) -> None:
    """Raise UsageError where a person's context is below what an engine promises."""
    if context is None:
        return
    for reading in fleet.readings:
        least = least_context(reading)
        if least is not None and context < least:
            raise UsageError(
                f"{place} of {context:,} is below the {least:,} that {reading.node} takes: it may "
                "only raise what the engines say; lower --context-length on the engines instead"
            )


def render(judgement: Judgement, *, as_json: bool) -> str:
    """Answer the judgement as one JSON object or as a table."""
    if as_json:
        return json.dumps(judgement.document(), allow_nan=False)
    return render_table(judgement)


def exit_code(verdict: Verdict) -> int:
    """Answer the exit code of the contract for a verdict."""
    return _CODES[verdict]
