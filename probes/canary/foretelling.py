"""What a round of a plan would cost in rotation, from what the nodes last said; nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleet.dialects import Dialect
from fleet.reading import Reading
from probes.canary.budget import object_to_cost
from probes.canary.contract import CanaryPlan
from probes.canary.leave import asks_together_only, is_sent, price_of
from probes.canary.rounds import NO_COST, Cost, Way
from probes.canary.scene import FigureMissing, build_scene

TOGETHER = "all that it asks is asked at once, so it is sent only cordoned, or accepted by name"
BY_PAIR = "it shows nothing through a router"
ALONE = "what it asks at once is sent only cordoned, or accepted by name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """What a round would cost at most. Unit: tokens, seconds on the slowest engine waited for.

    ``objection`` says why it would not be sent at all, ``withheld`` what of it would not.
    """

    cost: Cost = NO_COST
    objection: str = ""
    withheld: str = ""


def foretell(
    plan: CanaryPlan, readings: Sequence[Reading], *, dialect: Dialect, grant_tokens: int | None
) -> Foretold:
    """Answer what a round through the router would cost, as far as the nodes show their figures.

    Whether it may be sent is decided by what is read when it is to be: exposure is not asked here.
    """
    try:
        scene = build_scene(readings, target="", grant_tokens=grant_tokens)
    except FigureMissing as missing:
        return Foretold(objection=str(missing))
    if Way.ROUTER not in plan.ways:
        return Foretold(objection=BY_PAIR)
    sendings = plan.sendings(replace(scene, seed=1))
    if asks_together_only(sendings):
        return Foretold(objection=TOGETHER)
    sent = [one for one in sendings if is_sent(one, scene, may_share=False)]
    cost = price_of(sent, dialect)
    objection = object_to_cost(cost, pool=scene.pool, grant_tokens=grant_tokens, is_cordoned=False)
    withheld = ALONE if any(one.wave for one in sendings) else ""
    return Foretold(
        cost=cost, objection="more than is granted" if objection else "", withheld=withheld
    )
