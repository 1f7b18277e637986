"""Lever of the drill cluster: its control endpoint redeploys a node, as operators' tools do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from fleet.access import DeploymentAccess
from fleet.contract import FleetError
from fleet.models import Deployment
from fleet.reading import Reading
from fleet.selectors import deployment_access, outbound_client
from fleet.services import look_at
from runbooks.contract import LEVERS, StepError, Work

#: Last release that this project has seen with every admission guard (docs: engines).
FIXED_VERSION = "0.5.22"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redeploy:
    """What one node must be restarted with; pool in tokens."""

    node: str
    engine_version: str
    pool: int


def redeploy_for(reading: Reading, *, context: int, headroom: Decimal) -> Redeploy | None:
    """Answer what closes the exposure on this node, or None where it runs so already."""
    page = reading.page_size or 1
    wanted = (context * headroom).to_integral_value(rounding=ROUND_CEILING)
    pool = -(-int(wanted) // page) * page
    if reading.version == FIXED_VERSION and (reading.pool or 0) >= pool:
        return None
    return Redeploy(node=reading.node, engine_version=FIXED_VERSION, pool=pool)


@LEVERS.register("drill_control")
class DrillControl:
    """Restarts nodes through the control address of the drill."""

    title = "Drill control"

    def applies_to(self, deployment: Deployment) -> bool:
        """Answer whether the deployment has a drill control."""
        return bool(deployment.control_url)

    def pull(self, work: Work) -> str:
        """Restart every readable node that does not run as it should."""
        control = work.deployment.control_url.rstrip("/")
        return asyncio.run(self._pull(deployment_access(work.deployment), control))

    async def _pull(self, access: DeploymentAccess, control: str) -> str:
        look = await look_at(access)
        contexts = [reading.context for reading in look.readings if reading.context]
        context = max([*contexts, access.advertised or 0])
        plans = [
            plan
            for reading in look.readings
            if reading.is_read
            and (plan := redeploy_for(reading, context=context, headroom=access.headroom))
        ]
        for plan in plans:
            await self._restart(control, plan)
        names = ", ".join(
            f"{plan.node} to {plan.engine_version}, pool {plan.pool:,}" for plan in plans
        )
        return f"redeployed {names}" if plans else "nodes are starting"

    async def _restart(self, control: str, plan: Redeploy) -> None:
        try:
            async with outbound_client() as client:
                reply = await client.request(
                    "POST",
                    f"{control}/nodes/{plan.node}/restart",
                    json={"engine_version": plan.engine_version, "pool": plan.pool},
                )
        except FleetError as error:
            raise StepError(f"the drill control could not restart {plan.node}: {error}") from error
        if reply.status >= 300:  # noqa: PLR2004 - the client follows no redirect
            raise StepError(f"the drill control refused to restart {plan.node}: {reply.status}")
