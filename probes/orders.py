"""Turns a stored audit into canary rounds: who speaks, by which way, under which grant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.access import DeploymentAccess
from fleet.contract import Outbound
from probes.canary.contract import RoundOrder
from probes.canary.rounds import Acceptance, Tenant, Way
from probes.canary.surveying import LiveSurveyor
from probes.canary.ways import Gateway, marker_secret, pair_of, tokenizer_of, ways_into

#: What an audit sends where nobody names plans.
USUAL_PLANS = ("boundary",)
#: Numbers of the two tenants inside markers.
_TENANT_A = 1
_TENANT_B = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundWish:
    """What an audit wants of its rounds: each plan with each seed, by one way."""

    plans: Sequence[str]
    seeds: Sequence[int]
    way: Way
    acceptance: Acceptance | None = None


async def orders_of(
    access: DeploymentAccess, client: Outbound, wish: RoundWish
) -> tuple[RoundOrder, ...]:
    """Answer every round: through the router, or at each pair that the nodes make."""
    surveyor = LiveSurveyor(
        client=client,
        engine=access.engine,
        nodes=access.nodes,
        router_url=access.router_url,
        router_kind=access.router_kind,
        key=access.node_key,
        admin_key=access.admin_key,
        router_key=access.router_key,
    )
    gateway = Gateway(
        client=client,
        router_url=access.router_url,
        model=access.model,
        node_key=access.node_key,
    )
    survey = await surveyor.survey()
    tokenizer = tokenizer_of(gateway, survey, access.nodes)
    direct = pair_of(gateway, survey=survey, named=access.nodes)
    tenant_a, tenant_b = tenants_of(access)
    return tuple(
        RoundOrder(
            plan=plan,
            way=wish.way,
            target=way_in.target,
            speaker=way_in.speaker,
            tokenize=tokenizer,
            surveyor=surveyor,
            tenant_a=tenant_a,
            tenant_b=tenant_b,
            secret=marker_secret(tenant_a, tenant_b),
            seed=seed,
            reached=way_in.reached,
            dialect=way_in.dialect,
            grant_tokens=access.granted_tokens or None,
            acceptance=wish.acceptance,
            direct=direct,
        )
        for plan in wish.plans
        for seed in wish.seeds
        for way_in in ways_into(gateway, way=wish.way, survey=survey, named=access.nodes)
    )


def tenants_of(access: DeploymentAccess) -> tuple[Tenant, Tenant]:
    """Answer the two tenants that probe a deployment, as markers number them."""
    return (
        Tenant(number=_TENANT_A, name=access.tenant_a.name, key=access.tenant_a.key),
        Tenant(number=_TENANT_B, name=access.tenant_b.name, key=access.tenant_b.key),
    )
