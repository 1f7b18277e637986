"""Remedies of checks about lengths: context, pool, equal limits, reserve, upgrade."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal

from fleet.reading import FleetReading, Reading, Role
from probes.judgement import Check, Remedy
from probes.limits import (
    SGLANG,
    SGLANG_MARGIN,
    SLOTTED,
    advertised_context,
    context_flag,
    own_context,
    usable_pool,
)
from probes.versions import SAFE_SINCE
from probes.what_if import (
    change,
    nodes_of,
    outlook,
    smallest_context,
    smallest_pool,
    with_context,
    with_flags,
    with_pool,
)

#: How an engine is told its context, where its pool is a matter of its own.
CONTEXT_FLAG = {SGLANG: "--context-length", "vllm": "--max-model-len"}
_FEWEST_SLOTS = 2

_AGAIN = "then judge again, because a pool moves with every restart"


def for_pool(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the smaller context, and the larger pool; for llama.cpp slots that share none."""
    node = _node(fleet, check.target)
    if node is not None and node.engine == SLOTTED:
        yield from _part_slots(fleet, check, node)
        return
    yield from _lower_context(fleet, check)
    yield from _raise_pool(fleet, check)


def for_exposure(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer equal limits, and the release that hands nothing on."""
    yield from _lower_context(fleet, check)
    yield from _cap_pools(fleet, check)
    yield from _upgrade_prefill(fleet, check)


def for_limits(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer equal limits, by the context or by the pool."""
    yield from _lower_context(fleet, check)
    yield from _cap_pools(fleet, check)


def for_admission(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the context that every node can schedule, and the smaller reserve."""
    longest = check.figures.get("longest_scheduled")
    if isinstance(longest, int):
        # The last admitted length is one below F, and F is the context less the margin.
        yield from _lower_context(fleet, check, most=longest + SGLANG_MARGIN + 1)
    yield from _lower_reserve(fleet, check)


def _lower_context(fleet: FleetReading, check: Check, most: int | None = None) -> Iterator[Remedy]:
    """Answer one context for every node that fits the smallest pool with headroom."""
    pool, promised = smallest_pool(fleet), advertised_context(fleet)
    if pool is None or promised is None:
        return
    fitting = int((Decimal(pool) / fleet.headroom).to_integral_value(rounding=ROUND_FLOOR))
    context = min(one for one in (fitting, smallest_context(fleet), most) if one is not None)
    if context <= SGLANG_MARGIN + 1:
        return
    # Every node promises this context then, so the nodes of the check alone tell the outcome.
    names = nodes_of(check)
    lowered = change(fleet, names, with_context(context))
    mine = tuple(one for one in lowered.readings if one.node in names)
    lowered = replace(lowered, readings=mine, advertised=context)
    then = outlook(lowered, check)
    flags = _context_flags(fleet, context)
    if not then.is_closed or flags is None:
        return
    truncates = [one.node for one in fleet.readings if one.allow_auto_truncate]
    also = f", without --allow-auto-truncate on {', '.join(truncates)}" if truncates else ""
    yield Remedy(
        check=check.check,
        target=check.target,
        action=(
            f"lower the context to {context:,} on every node{also}, and promise no more at the "
            f"router: the smallest pool then holds {pool / context:.2f} full-length requests "
            f"instead of {pool / promised:.2f}, and refuses prompts from "
            f"{context - SGLANG_MARGIN:,} tokens on; {_AGAIN}"
        ),
        flags=flags,
        predicted_band=then.band,
        full_length_requests_before=pool / promised,
        full_length_requests_after=pool / context,
    )


def _context_flags(fleet: FleetReading, context: int) -> dict[str, tuple[str, ...]] | None:
    """Answer the flag of every node; None where an engine's flag is not known."""
    engines = {one.engine for one in fleet.readings}
    if not engines <= {*CONTEXT_FLAG}:
        return None
    return {one.node: (f"{CONTEXT_FLAG[one.engine]} {context}",) for one in fleet.readings}


def _raise_pool(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the pool that one node needs; a flag only where a flag is what keeps it small."""
    node = _node(fleet, check.target)
    required, context = check.figures.get("required"), check.figures.get("context")
    pool = check.figures.get("pool")
    if node is None or not (isinstance(required, int) and isinstance(context, int)):
        return
    own = own_context(node)
    raised = change(fleet, [node.node], _pool_and_context(required, context))
    then = outlook(raised, check)
    if not then.is_closed:
        return
    flags = []
    if node.flags.get("max_total_tokens") not in {None, "null"}:
        flags.append(f"--max-total-tokens {required}")
    if own is not None and own < context:
        flags.append(f"{context_flag(node.engine)} {context}")
    yield Remedy(
        check=check.check,
        target=check.target,
        action=(
            f"give {node.node} a pool of {required:,} tokens: a larger share of memory "
            "(--mem-fraction-static), a smaller KV dtype, or more devices for each replica; "
            f"{_AGAIN}"
        ),
        flags={node.node: tuple(flags)} if flags else {},
        predicted_band=then.band,
        full_length_requests_before=pool / context if isinstance(pool, int) else None,
        full_length_requests_after=required / context,
    )


def _part_slots(fleet: FleetReading, check: Check, node: Reading) -> Iterator[Remedy]:
    """Answer slots that each take the context and that do not share one pool.

    A smaller --ctx-size makes the pool smaller with it, so no context alone closes this.
    Source: llama-context.cpp, n_ctx_seq is n_ctx where unified, else n_ctx / n_seq_max.
    """
    required, context = check.figures.get("required"), check.figures.get("context")
    pool, shown = check.figures.get("pool"), node.flags.get("total_slots") or ""
    if not (isinstance(required, int) and isinstance(context, int)):
        return
    count = int(shown) if shown.isdecimal() else 1
    slots = max(_FEWEST_SLOTS, count, -(-required // context))
    then = outlook(change(fleet, [node.node], _pool_and_context(slots * context, context)), check)
    if not then.is_closed:
        return
    yield Remedy(
        check=check.check,
        target=check.target,
        action=(
            f"start {node.node} with {slots} slots of {context:,} tokens each that share nothing, "
            "and vouch for kv_unified = false; it needs the memory of "
            f"{slots * context:,} tokens; {_AGAIN}"
        ),
        flags={
            node.node: (
                f"--ctx-size {slots * context}",
                f"--parallel {slots}",
                "--no-kv-unified",
            )
        },
        predicted_band=then.band,
        full_length_requests_before=pool / context if isinstance(pool, int) else None,
        full_length_requests_after=float(slots),
    )


def _pool_and_context(pool: int, context: int) -> Callable[[Reading], Reading]:
    def make(reading: Reading) -> Reading:
        return with_pool(pool)(replace(reading, context=context))

    return make


def _cap_pools(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the cap that makes the larger pools refuse what the smallest refuses.

    It costs the larger nodes what they hold beyond it, and it leaves the pool check as it is.
    """
    pools = {
        one.node: usable_pool(one, own_context(one)).tokens
        for one in fleet.readings
        if one.role is not Role.UNIFIED and one.engine == SGLANG
    }
    known = [pool for pool in pools.values() if pool is not None]
    context = advertised_context(fleet)
    if not known or len(known) < len(pools) or context is None:
        return
    cap, largest = min(known), max(known)
    capped = [node for node, pool in pools.items() if pool is not None and pool > cap]
    then = outlook(change(fleet, capped, with_pool(cap)), check)
    if not capped or not then.is_closed or then.band:
        return
    yield Remedy(
        check=check.check,
        target=check.target,
        action=(
            f"cap the pool of {', '.join(capped)} to {cap:,} tokens, so that both sides refuse the "
            f"same lengths: it holds {cap / context:.2f} full-length requests against "
            f"{largest / context:.2f} today, and pool_covers_context still has to be closed; "
            f"{_AGAIN}"
        ),
        flags=dict.fromkeys(capped, (f"--max-total-tokens {cap}",)),
        predicted_band=then.band,
        full_length_requests_before=largest / context,
        full_length_requests_after=cap / context,
    )


def _upgrade_prefill(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    prefill = _node(fleet, check.target.partition("/")[0])
    since = SAFE_SINCE.get(prefill.engine) if prefill is not None else None
    if prefill is None or since is None:
        return
    then = outlook(change(fleet, [prefill.node], with_flags(version=since)), check)
    if not then.is_closed:
        return
    yield Remedy(
        check=check.check,
        target=check.target,
        action=(
            f"upgrade {prefill.node} to {prefill.engine} {since} or later: what it refuses is then "
            "never answered, but unequal limits still hold up the other side (pair_limits)"
        ),
        predicted_band=then.band,
    )


def _lower_reserve(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the reserve of a decode node beside which its longest prompt still fits."""
    node = _node(fleet, check.target)
    pool, last = check.figures.get("pool"), check.figures.get("last_admitted")
    if node is None or node.role is not Role.DECODE:
        return
    if not (isinstance(pool, int) and isinstance(last, int)) or pool - last < 1:
        return
    reserve = pool - last
    then = outlook(change(fleet, [node.node], lambda one: replace(one, reserve=reserve)), check)
    if not then.is_closed:
        return
    yield Remedy(
        check=check.check,
        target=check.target,
        action=(
            f"lower the reserve of {node.node} to {reserve:,} tokens: its longest prompt then fits "
            "an empty pool, and running requests are retracted more often"
        ),
        flags={node.node: (f"--num-reserved-decode-tokens {reserve}",)},
        predicted_band=then.band,
    )


def _node(fleet: FleetReading, name: str) -> Reading | None:
    return next((one for one in fleet.readings if one.node == name), None)
