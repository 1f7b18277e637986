"""Gate: the pool of every node holds the context that its clients are promised, with headroom."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.doubts import doubt_about, tokens
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import (
    SGLANG,
    SLOTTED,
    WINDOW,
    Pool,
    advertised_context,
    context_flag,
    derived_context,
    first_refused_for,
    own_context,
    refusal_limits,
    remarks,
    scheduling_step,
    shortcomings,
    step_shortfall,
    unknown_step,
    usable_pool,
)
from probes.vouched import Word, resting_figures, word_about

KEY = "pool_covers_context"

#: A person's word that tells the pool of a llama.cpp server.
UNIFIED_SLOTS = "kv_unified"


@GATES.register(KEY)
class PoolCoversContext:
    """Holds the smallest pool of each node against the advertised context times the headroom.

    Unit: tokens; ``ratio`` is pool / context, not rounded. Source: incident facts, "Fixes and
    guards"; /server_info and /v1/models (SGLang).
    """

    title = "Pool covers the context"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a node."""
        if not fleet.readings:
            yield Skipped(check=KEY, reason="no node was named, so there is no pool to hold")
            return
        context = advertised_context(fleet)
        for reading in fleet.readings:
            yield self._judge_node(reading, context, fleet.headroom)

    def _judge_node(self, reading: Reading, context: int | None, headroom: Decimal) -> Check:
        pool = usable_pool(reading, context)
        figures = _figures(reading, pool, context, headroom)
        verdict, reason = _verdict(reading, pool, context, headroom)
        return Check(
            check=KEY,
            target=reading.node,
            verdict=verdict,
            kind=self.kind,
            reason=reason,
            figures=figures,
        )


@lru_cache(maxsize=1024)
def required_pool(context: int, headroom: Decimal) -> int:
    """Answer ceil(context x headroom), in decimal arithmetic."""
    return int((Decimal(context) * headroom).to_integral_value(rounding=ROUND_CEILING))


def _verdict(
    reading: Reading, pool: Pool, context: int | None, headroom: Decimal
) -> tuple[Verdict, str]:
    doubt = doubt_about(reading) or _missing_figure(reading, pool, context)
    if doubt or context is None or pool.tokens is None:
        return Verdict.INCONCLUSIVE, doubt
    # A figure that is missing can only make the pool smaller or the context larger, so a fail
    # stands whatever else is unknown.
    if pool.tokens < required_pool(context, headroom):
        reason = _shortfall(reading, pool.tokens, context, headroom)
        return Verdict.FAIL, reason + _remarked(reading)
    step = step_shortfall(reading)
    if step:
        return Verdict.FAIL, step
    gap = _gap(reading, pool, context)
    if gap:
        return Verdict.INCONCLUSIVE, gap
    return Verdict.PASS, (
        f"{reading.node} holds {tokens(pool.tokens)} tokens: one request of the full context of "
        f"{tokens(context)} fits with headroom {headroom}{_remarked(reading)}"
    )


def _remarked(reading: Reading) -> str:
    """Answer what else people should know of these figures: their source, or a second figure."""
    told = "; ".join(remarks(reading, "pool", "context"))
    return f" ({told})" if told else ""


def _missing_figure(reading: Reading, pool: Pool, context: int | None) -> str:
    if pool.tokens is None:
        why = f" ({pool.gap})" if pool.gap else ""
        return (
            f"{reading.node} shows no pool{why}: ask each engine at its own address, with its key"
        )
    if context is None:
        return (
            f"{reading.node} shows no context, and its limit and pool do not tell it: make "
            f"/v1/models readable, or start it with {context_flag(reading.engine)}"
        )
    return ""


def _gap(reading: Reading, pool: Pool, context: int) -> str:
    """Answer what could still turn a pass into a fail, or nothing."""
    doubt = pool.gap or unknown_step(reading)
    if doubt:
        return f"{reading.node} cannot be vouched for: {doubt}"
    if own_context(reading) is None:
        return (
            f"{reading.node} shows no context of its own and may promise more than the "
            f"{tokens(context)} known from elsewhere: make its /v1/models readable"
        )
    unclear = [*shortcomings(reading, "context")]
    if unclear and derived_context(reading) is None:
        return f"{reading.node} may promise more than {tokens(context)}: {'; '.join(unclear)}"
    return ""


def _shortfall(reading: Reading, pool: int, context: int, headroom: Decimal) -> str:
    required = required_pool(context, headroom)
    fitting = int((Decimal(pool) / headroom).to_integral_value(rounding=ROUND_FLOOR))
    cure = (
        f"give {reading.node} slots that share no pool, {tokens(required)} in all"
        if reading.engine == SLOTTED
        else f"lower the context to {tokens(fitting)} on every node and at the router, "
        f"or give {reading.node} a pool of {tokens(required)}"
    )
    if pool >= context:
        return (
            f"{reading.node} holds {tokens(pool)} tokens, enough for the context of "
            f"{tokens(context)} but not for {tokens(required)} (headroom {headroom}): {cure}"
        )
    own = own_context(reading)
    if own is not None and pool == own < context:
        return (
            f"{reading.node} takes no more than its own context of {tokens(own)}, but "
            f"{tokens(context)} is advertised: start it with that {context_flag(reading.engine)} "
            f"and a pool of {tokens(required)}, or advertise less"
        )
    band = _danger_band(reading, pool, context)
    what = "refuses" if reading.engine == SGLANG else "cannot serve"
    refused = f"; it {what} from {tokens(band[0])} what clients are promised" if band else ""
    return (
        f"{reading.node} holds {tokens(pool)} tokens, fewer than the advertised context of "
        f"{tokens(context)}{refused}: {cure}"
    )


def _figures(
    reading: Reading, pool: Pool, context: int | None, headroom: Decimal
) -> dict[str, Figure]:
    lowest = refusal_limits(reading).lowest
    figures: dict[str, Figure] = {
        "pool": pool.tokens,
        "context": context,
        "required": None if context is None else required_pool(context, headroom),
        "ratio": None if context is None or pool.tokens is None else pool.tokens / context,
        "last_admitted": None if lowest is None else lowest - 1,
        "danger_band": None,
    }
    if context is not None and pool.tokens is not None:
        figures["danger_band"] = _danger_band(reading, pool.tokens, context)
    sliding = [rank.swa_capacity for rank in reading.ranks if rank.swa_capacity is not None]
    if sliding:
        full = [rank.pool for rank in reading.ranks if rank.pool is not None]
        figures["full_pool"] = min(full, default=None)
        figures["sliding_window_pool"] = min(sliding)
        figures["scheduling_step"] = scheduling_step(reading)
    figures |= resting_figures(_words(reading, pool))
    return {**reading.beside, **figures}


def _words(reading: Reading, pool: Pool) -> list[Word]:
    """Answer the words of people that these figures rest on."""
    asked = [UNIFIED_SLOTS] if pool.tokens is not None else []
    if scheduling_step(reading) is not None:
        asked.append(WINDOW)
    return [word_about(reading, name) for name in asked]


def _danger_band(reading: Reading, pool: int, context: int) -> list[int] | None:
    """Answer the lengths that the context promises and the pool makes the node refuse."""
    if pool >= context:
        return None
    lowest = refusal_limits(reading).lowest
    if reading.engine != SGLANG:
        # Nothing is refused for the pool; a prompt that fills it leaves no token to generate.
        lowest = pool if lowest is None else min(lowest, pool)
    elif lowest is None:
        lowest = first_refused_for(own_context(reading), pool)
    return [lowest, context - 1] if lowest is not None and lowest < context else None
