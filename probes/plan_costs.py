"""What each canary plan would cost on a deployment, and what it did cost the last time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.dialects import DIALECTS, Dialect
from fleet.models import Deployment
from fleet.plan_offers import OFFERERS, PlanOffer
from fleet.reading import Reading
from fleet.selectors import readings_latest
from fleet.snapshot import reading_from
from probes.canary.contract import PLANS
from probes.canary.foretelling import Foretold, foretell
from probes.canary.rounds import Cost
from probes.models import Audit, AuditState
from probes.orders import USUAL_PLANS

#: So many audits are looked through for what a plan did cost.
_LOOKED_AT = 20
#: Taken where nobody said what kind of router it is.
_USUAL_ROUTER = "sglang-router"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """One plan on a deployment; None where nothing can be told.

    ``last`` is what its newest round did cost; ``is_usual``: audits of the deployment run it.
    """

    key: str
    title: str
    is_usual: bool
    foretold: Foretold | None = None
    last: Cost | None = None

    @property
    def estimate(self) -> Cost | None:
        """Answer what a round would cost at most, None where none is sent or it is not known."""
        told = self.foretold
        return None if told is None or told.objection else told.cost

    @property
    def says(self) -> str:
        """Answer in words what it costs and needs, as far as that is known."""
        return "; ".join(_parts_of(self))


def plan_costs(deployment: Deployment) -> tuple[PlanCost, ...]:
    """Answer every plan with its cost, from the newest readings, in two queries."""
    readings = _readings_of(deployment)
    last = _last_costs(deployment)
    usual = deployment.plans or USUAL_PLANS
    dialect = DIALECTS.get(deployment.router_kind or _USUAL_ROUTER, DIALECTS["gateway"])
    return tuple(
        PlanCost(
            key=key,
            title=plan.title,
            is_usual=key in usual,
            foretold=_foretold(key, readings, dialect, deployment),
            last=last.get(key),
        )
        for key, plan in PLANS.all().items()
    )


def usual_estimate(costs: Sequence[PlanCost]) -> Cost:
    """Answer what the usual plans would cost together, as far as that is known."""
    known = [one.estimate for one in costs if one.is_usual and one.estimate is not None]
    return Cost(
        tokens=sum(one.tokens for one in known),
        requests=sum(one.requests for one in known),
        seconds=sum(one.seconds for one in known),
    )


@OFFERERS.register("canary")
class CanaryPlans:
    """Offers every registered plan to the form of a deployment."""

    def offers(self, deployment: Deployment | None) -> Sequence[PlanOffer]:
        """Answer the plans, with their cost on a deployment that was read."""
        if deployment is None:
            return [PlanOffer(key=key, title=plan.title) for key, plan in PLANS.all().items()]
        return [
            PlanOffer(key=one.key, title=one.title, needs=_sentence(one.says))
            for one in plan_costs(deployment)
        ]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _parts_of(cost: PlanCost) -> Iterator[str]:
    told = cost.foretold
    if told is not None and told.objection:
        tokens = f": {told.cost.tokens:,} tokens" if told.cost.tokens else ""
        yield f"not sent in rotation as things stand: {told.objection}{tokens}"
    elif told is not None:
        yield f"at most {_tokens(told.cost)}, up to {told.cost.seconds:,.0f} s"
        if told.withheld:
            yield told.withheld
    if cost.last is not None:
        yield f"last time {_tokens(cost.last)}, {cost.last.seconds:,.1f} s"


def _tokens(cost: Cost) -> str:
    return f"{cost.tokens:,} tokens in {cost.requests:,} requests"


def _foretold(
    key: str, readings: Sequence[Reading], dialect: Dialect, deployment: Deployment
) -> Foretold | None:
    if not readings:
        return None
    return foretell(
        PLANS.get(key), readings, dialect=dialect, grant_tokens=deployment.granted_tokens or None
    )


def _readings_of(deployment: Deployment) -> list[Reading]:
    """Answer the newest readings, or none where a node was not read or an old release stored it."""
    rows = readings_latest(deployment)
    try:
        found = [reading_from(row.document, taken_at=row.taken_at) for row in rows]
    except (KeyError, TypeError, ValueError):
        return []
    return found if all(one.is_read for one in found) else []


def _last_costs(deployment: Deployment) -> dict[str, Cost]:
    heads = Audit.objects.filter(deployment=deployment, state=AuditState.DONE).exclude(rounds=[])
    newest = heads.order_by("-queued_at", "-pk").values_list("rounds", flat=True)[:_LOOKED_AT]
    found: dict[str, Cost] = {}
    for rounds in newest:
        for head in rounds:
            cost = _spent(head)
            if cost.requests:
                found.setdefault(str(head.get("plan")), cost)
    return found


def _spent(head: Mapping[str, Any]) -> Cost:
    paid = head.get("cost") or {}
    return Cost(
        tokens=int(paid.get("spent_tokens") or 0),
        requests=int(paid.get("requests") or 0),
        seconds=float(paid.get("seconds") or 0.0),
    )
