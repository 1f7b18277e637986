"""Leave to send a round: safety rules 1 and 4 over what was read just before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from common.verdicts import Verdict
from fleet.dialects import Dialect
from fleet.reading import FleetReading, Reading
from probes.canary.budget import object_to_cost
from probes.canary.contract import CanaryPlan, RoundOrder
from probes.canary.patience import longest_s
from probes.canary.rounds import NO_COST, Acceptance, Cost, Part, Sending, Way, cost_of
from probes.canary.safety import Question, clear, in_rotation
from probes.canary.scene import FigureMissing, Scene, build_scene
from probes.canary.scripting import routes_to_count
from probes.canary.survey import Survey
from probes.canary.waves import IN_ROTATION
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
        scene: Scene | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.verdict = verdict
        self.estimate = estimate
        self.scene = scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Leave to send a round: what it reaches, what it sends, what that costs.

    ``withheld`` counts the sendings that a hang band forbids. ``may_share``: several requests may
    be under way at once, because nobody else is there or a named person accepts it.
    """

    scene: Scene
    sendings: tuple[Sending, ...]
    estimate: Cost
    withheld: int
    is_cordoned: bool
    may_share: bool
    acceptance: Acceptance | None

    @property
    def workers(self) -> tuple[str, ...]:
        """Answer the names of all that could answer."""
        return tuple(pair.name for pair in self.scene.pairs)


def ask_leave(order: RoundOrder, plan: CanaryPlan, survey: Survey) -> Leave:
    """Answer what may be sent under safety rules 1 and 4. Raises NotSent."""
    if order.way not in plan.ways:
        ways = " or ".join(f"--via {way}" for way in plan.ways)
        raise NotSent(f"{order.plan} shows nothing by this way: {plan.title}; take {ways}")
    reached = reached_by(order, survey)
    present = in_rotation(survey, reached)
    question = Question(
        way=order.way,
        survey=survey,
        reached=reached,
        exposure=_judged("pair_exposure", present),
        guards=tuple(check for gate in plan.guards for check in _judged(gate, present)),
    )
    clearance = clear(question, order.acceptance)
    if not clearance.is_granted:
        raise NotSent(clearance.refusal)
    scene = _scene(order, reached, is_cordoned=clearance.is_cordoned)
    sendings = plan.sendings(scene)
    may_share = clearance.is_cordoned or order.acceptance is not None
    if not may_share and asks_together_only(sendings):
        raise NotSent(IN_ROTATION, scene=scene)
    sent = [one for one in sendings if is_sent(one, scene, may_share=may_share)]
    estimate = price_of(sent, order.dialect)
    objection = object_to_cost(
        estimate,
        pool=scene.pool,
        grant_tokens=order.grant_tokens,
        is_cordoned=clearance.is_cordoned,
    )
    if objection:
        raise NotSent(objection, estimate=estimate, scene=scene)
    return Leave(
        scene=scene,
        sendings=sendings,
        estimate=estimate,
        withheld=len(sendings) - len(sent),
        is_cordoned=clearance.is_cordoned,
        may_share=may_share,
        acceptance=order.acceptance if clearance.is_accepted else None,
    )


def _scene(order: RoundOrder, reached: tuple[Reading, ...], *, is_cordoned: bool) -> Scene:
    """Answer what the plan chooses from. Raises NotSent."""
    try:
        scene = build_scene(reached, target=order.target, grant_tokens=order.grant_tokens)
    except FigureMissing as missing:
        raise NotSent(str(missing)) from None
    # Out of rotation nobody's cache is lost: a plan may cost as much as one filling of the pool.
    allowance = max(scene.allowance, scene.fill if is_cordoned else 0)
    return replace(scene, seed=order.seed, allowance=allowance)


def price_of(sent: Sequence[Sending], dialect: Dialect) -> Cost:
    """Answer what these cost at most, with what it takes to learn how each route counts."""
    paid = [*routes_to_count(sent, dialect), *sent]
    return replace(cost_of(paid), seconds=longest_s(paid))


def asks_together_only(sendings: tuple[Sending, ...]) -> bool:
    """Answer whether a round without its waves would cost something and show nothing."""
    asks = [one for one in sendings if one.part is Part.ASK]
    return bool(asks) and all(one.wave for one in asks)


def is_sent(sending: Sending, scene: Scene, *, may_share: bool) -> bool:
    """Answer whether a round may send this: alone or shared, and not to block a node."""
    if sending.wave and not may_share:
        return False
    return not scene.hang_at(sending.length, sending.max_new_tokens)


def reached_by(order: RoundOrder, survey: Survey) -> tuple[Reading, ...]:
    """Answer the readings of the nodes that this round's requests can touch."""
    if order.way is Way.ROUTER:
        return survey.listed_readings
    found = (survey.reading_at(url) for url in order.reached)
    return tuple(reading for reading in found if reading is not None)


def _judged(gate: str, readings: tuple[Reading, ...]) -> tuple[Check, ...]:
    fleet = FleetReading(readings=readings)
    found = GATES.get(gate).judge(fleet)
    return tuple(one for one in found if isinstance(one, Check))
