"""What a round may cost (safety rule 4): filling a pool evicts customers' caches."""

from __future__ import annotations

from probes.canary.rounds import Cost

#: Share of the smallest pool that a round in rotation may cost without a grant, in percent.
SHARE_PERCENT = 5


def default_allowance(pool: int) -> int:
    """Answer the tokens that a round may cost in rotation without a grant."""
    return pool * SHARE_PERCENT // 100


def allowance_of(pool: int, grant_tokens: int | None) -> int:
    """Answer the tokens that a round may cost in rotation under what was granted."""
    return max(grant_tokens or 0, default_allowance(pool))


def object_to_cost(cost: Cost, *, pool: int, grant_tokens: int | None, is_cordoned: bool) -> str:
    """Answer why this cost is too much and what would allow it, or nothing where it is allowed.

    Out of rotation no customer's cache is there to be evicted, so no grant is needed.
    """
    allowed = allowance_of(pool, grant_tokens)
    if is_cordoned or cost.tokens <= allowed:
        return ""
    if grant_tokens is None:
        limit = f"{allowed:,} tokens are allowed in rotation ({SHARE_PERCENT} % of the pool)"
    else:
        limit = f"{grant_tokens:,} tokens of the grant are left"
    return (
        f"the round costs {cost.tokens:,} tokens and {limit}: grant it with "
        f"--budget-tokens {cost.tokens} (or on the deployment), or cordon the pair and probe it "
        "with --via pair"
    )
