"""Judges fresh readings of a deployment under its own profile."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.access import DeploymentAccess
from fleet.reading import FleetReading, Reading
from probes.contract import DEFAULT_REQUIRED
from probes.judge import judge_fleet
from probes.judgement import Judgement


def fleet_reading(access: DeploymentAccess, readings: Sequence[Reading]) -> FleetReading:
    """Answer what gates look at: readings under the deployment's headroom and context."""
    return FleetReading(
        readings=tuple(readings), headroom=access.headroom, advertised=access.advertised
    )


def judge_readings(access: DeploymentAccess, readings: Sequence[Reading]) -> Judgement:
    """Answer what the gates say of these readings."""
    return judge_fleet(
        fleet_reading(access, readings), required=access.required_checks or DEFAULT_REQUIRED
    )
