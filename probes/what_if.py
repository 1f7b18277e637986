"""The fleet as it would be after a change, so that a remedy is judged before it is named.

Readings are changed by the engine's own arithmetic; what a restart really gives only a new reading
tells, because a pool moves with every setting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from common.verdicts import Verdict
from fleet.reading import FleetReading, Rank, Reading
from probes.contract import GATES
from probes.judgement import Check
from probes.limits import SGLANG_MARGIN, advertised_context, own_context, usable_pool

#: Figure of a check that holds lengths, by the name of the check.
BANDS = {
    "pool_covers_context": "danger_band",
    "pair_exposure": "band",
    "pair_limits": "lengths",
    "decode_admission": "hang_band",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a gate would say of one target: whether it still fails, and the lengths left."""

    is_closed: bool
    band: list[int] | None = None


def change(
    fleet: FleetReading, nodes: Collection[str], make: Callable[[Reading], Reading]
) -> FleetReading:
    """Answer the fleet with these nodes changed."""
    chosen = frozenset(nodes)
    readings = tuple(make(one) if one.node in chosen else one for one in fleet.readings)
    return replace(fleet, readings=readings)


def outlook(fleet: FleetReading, check: Check) -> Outlook:
    """Answer what the gate of a check would say of the same target over this fleet.

    Only the nodes of the target are judged, under the context that all together promise.
    """
    names = nodes_of(check)
    readings = tuple(one for one in fleet.readings if one.node in names)
    alone = replace(fleet, readings=readings, advertised=advertised_context(fleet))
    for found in GATES.get(check.check).judge(alone):
        if isinstance(found, Check) and found.target == check.target:
            band = found.figures.get(BANDS.get(check.check, ""))
            return Outlook(
                is_closed=found.verdict is not Verdict.FAIL,
                band=list(band) if isinstance(band, list) else None,
            )
    # A check that no longer applies is closed too.
    return Outlook(is_closed=True)


def nodes_of(check: Check) -> frozenset[str]:
    """Answer the names that the target of a check may consist of: a node, or both of a pair."""
    return frozenset({check.target, *check.target.split("/")})


def with_context(context: int) -> Callable[[Reading], Reading]:
    """Answer the change to a context that is not above a node's own."""

    def make(reading: Reading) -> Reading:
        first = reading.first_refused
        limit = context - SGLANG_MARGIN
        lowered = None if first is None else min(first, limit)
        return replace(reading, context=context, first_refused=lowered)

    return make


def with_pool(pool: int) -> Callable[[Reading], Reading]:
    """Answer the change to a pool of so many tokens on every rank."""

    def make(reading: Reading) -> Reading:
        ranks = tuple(
            Rank(index=one.index, token_capacity=pool, reported_pool=pool) for one in reading.ranks
        )
        own = own_context(reading)
        limit = pool if own is None else min(own, pool)
        first = None if reading.first_refused is None else limit - SGLANG_MARGIN
        return replace(reading, pool=pool, ranks=ranks, first_refused=first)

    return make


def with_flags(version: str | None = None, **flags: str) -> Callable[[Reading], Reading]:
    """Answer the change to these settings, and to a version where one is named."""

    def make(reading: Reading) -> Reading:
        return replace(
            reading,
            version=version or reading.version,
            flags={**reading.flags, **flags},
        )

    return make


def smallest_pool(fleet: FleetReading) -> int | None:
    """Answer the smallest pool of all nodes; None where that of any is not known."""
    context = advertised_context(fleet)
    pools = [usable_pool(one, own_context(one) or context).tokens for one in fleet.readings]
    known = [one for one in pools if one is not None]
    return min(known, default=None) if len(known) == len(pools) else None


def smallest_context(fleet: FleetReading) -> int | None:
    """Answer the smallest context that a node of its own has, where one is known."""
    known = [one for one in map(own_context, fleet.readings) if one is not None]
    return min(known, default=None)
