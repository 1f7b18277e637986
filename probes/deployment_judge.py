"""Judges fresh readings of a deployment under its own profile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fleet.access import DeploymentAccess
from fleet.reading import FleetReading, Reading
from probes.contract import DEFAULT_REQUIRED
from probes.exercised import refusals_exercised
from probes.judge import judge_fleet
from probes.judgement import Check, Judgement


def fleet_reading(access: DeploymentAccess, readings: Sequence[Reading]) -> FleetReading:
    """Answer what gates look at: readings under the deployment's headroom and context."""
    return FleetReading(
        readings=tuple(readings), headroom=access.headroom, advertised=access.advertised
    )


def judge_readings(
    access: DeploymentAccess,
    readings: Sequence[Reading],
    *,
    rounds: Sequence[object] = (),
    also: Iterable[Check] = (),
) -> Judgement:
    """Answer what the gates say of these readings, and of rounds sent to the same processes.

    ``also`` are checks made elsewhere; their own ``required`` stands.
    """
    fleet = fleet_reading(access, readings)
    fleet = replace(fleet, refused=refusals_exercised(readings, rounds))
    return judge_fleet(fleet, required=access.required_checks or DEFAULT_REQUIRED, also=also)


def judge_briefly(access: DeploymentAccess, readings: Sequence[Reading]) -> Judgement:
    """Answer the same without remedies, which cost more than the gates: for a sweep's look."""
    return judge_fleet(
        fleet_reading(access, readings),
        required=access.required_checks or DEFAULT_REQUIRED,
        with_remedies=False,
    )
