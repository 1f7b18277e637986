"""Runs every gate over the readings of one deployment and adds the verdicts up."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping

from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.reading import FleetReading
from probes.contract import DEFAULT_REQUIRED, GATES, Gate
from probes.judgement import Check, Judgement, Kind, Remedy, Skipped
from probes.remedy import remedies_for

log = logging.getLogger(__name__)


def judge_fleet(
    fleet: FleetReading,
    *,
    required: Collection[str] = DEFAULT_REQUIRED,
    gates: Mapping[str, Gate] | None = None,
    also: Iterable[Check | Skipped] = (),
    with_remedies: bool = True,
) -> Judgement:
    """Answer what all gates say of these readings, under a profile of required check names.

    ``also`` are checks made elsewhere (drift, a router that could not be read); their own
    ``required`` stands. A gate that raises is an error of that gate and ends nothing else.
    """
    if gates is None:
        load_plugins("probes.gates")
        gates = GATES.all()
    found = [
        one.with_required(required=key in required) if isinstance(one, Check) else one
        for key, gate in gates.items()
        for one in _run_gate(key, gate, fleet)
    ]
    elsewhere = list(also)
    checks = [one for one in found if isinstance(one, Check)]
    skipped = [one for one in (*found, *elsewhere) if isinstance(one, Skipped)]
    checks.extend(_unregistered(name) for name in required if name not in gates)
    checks.extend(one for one in elsewhere if isinstance(one, Check))
    return Judgement(
        checks=tuple(checks),
        skipped=tuple(skipped),
        remedies=_remedies(fleet, checks) if with_remedies else (),
    )


def _remedies(fleet: FleetReading, checks: Iterable[Check]) -> tuple[Remedy, ...]:
    """Answer what closes the failing checks; a fault here must not cost the verdict."""
    try:
        return remedies_for(fleet, checks)
    except Exception:
        # A remedy re-runs the gates, which are plug-ins. Without it the verdict still stands.
        log.exception("the remedies could not be worked out")
        return ()


def _run_gate(key: str, gate: Gate, fleet: FleetReading) -> Iterator[Check | Skipped]:
    said_anything = False
    try:
        for one in gate.judge(fleet):
            said_anything = True
            yield one
    except Exception as error:  # noqa: BLE001 - a gate is a plug-in: whatever it raises is its own
        yield Check(
            check=key,
            target="",
            verdict=Verdict.ERROR,
            kind=gate.kind,
            # The text of the error may quote an answer, so only its kind is told.
            reason=f"the gate itself failed ({type(error).__name__}); this is our fault: report it",
        )
        return
    if not said_anything:
        yield Check(
            check=key,
            target="",
            verdict=Verdict.INCONCLUSIVE,
            kind=gate.kind,
            reason="the gate said nothing at all, which proves nothing",
        )


def _unregistered(name: str) -> Check:
    return Check(
        check=name,
        target="",
        verdict=Verdict.INCONCLUSIVE,
        kind=Kind.CONFIG,
        reason=f"the profile requires {name}, but no gate has that name: correct the profile",
    )
