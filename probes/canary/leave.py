"""Leave to send a round: safety rules 1 and 4 over what was read just before."""

from __future__ import annotations

from dataclasses import dataclass

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.canary.budget import object_to_cost
from probes.canary.contract import CanaryPlan, RoundOrder
from probes.canary.rounds import NO_COST, Acceptance, Cost, Sending, Way, cost_of
from probes.canary.safety import Question, clear, in_rotation
from probes.canary.scene import FigureMissing, Scene, build_scene
from probes.canary.survey import Survey
from probes.contract import GATES
from probes.judgement import Check


class NotSent(Exception):
    """A round was not sent; the text says why and what to do."""

    def __init__(
        self,
        reason: str,
        *,
        verdict: Verdict = Verdict.NOT_EXERCISED,
        estimate: Cost = NO_COST,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.verdict = verdict
        self.estimate = estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Leave to send a round: what it reaches, what it sends, what that costs."""

    scene: Scene
    sendings: tuple[Sending, ...]
    estimate: Cost
    is_cordoned: bool
    acceptance: Acceptance | None


def ask_leave(order: RoundOrder, plan: CanaryPlan, survey: Survey) -> Leave:
    """Answer what may be sent under safety rules 1 and 4. Raises NotSent."""
    reached = reached_by(order, survey)
    exposure = _exposure(in_rotation(survey, reached))
    question = Question(way=order.way, survey=survey, reached=reached, exposure=exposure)
    clearance = clear(question, order.acceptance)
    if not clearance.is_granted:
        raise NotSent(clearance.refusal)
    try:
        scene = build_scene(reached, target=order.target)
    except FigureMissing as missing:
        raise NotSent(str(missing)) from None
    sendings = plan.sendings(scene)
    estimate = cost_of(
        [one for one in sendings if not scene.hang_at(one.length, one.max_new_tokens)]
    )
    objection = object_to_cost(
        estimate,
        pool=scene.pool,
        grant_tokens=order.grant_tokens,
        is_cordoned=clearance.is_cordoned,
    )
    if objection:
        raise NotSent(objection, estimate=estimate)
    return Leave(
        scene=scene,
        sendings=sendings,
        estimate=estimate,
        is_cordoned=clearance.is_cordoned,
        acceptance=order.acceptance if clearance.is_accepted else None,
    )


def reached_by(order: RoundOrder, survey: Survey) -> tuple[Reading, ...]:
    """Answer the readings of the nodes that this round's requests can touch."""
    if order.way is Way.ROUTER:
        return survey.listed_readings
    found = (survey.reading_at(url) for url in order.reached)
    return tuple(reading for reading in found if reading is not None)


def _exposure(readings: tuple[Reading, ...]) -> tuple[Check, ...]:
    fleet = FleetReading(readings=readings)
    found = GATES.get("pair_exposure").judge(fleet)
    return tuple(one for one in found if isinstance(one, Check))
