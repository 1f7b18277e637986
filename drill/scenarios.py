"""The named figures that a drill can start with; each of them can be overridden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from drill.guards import Guard

DEFAULT_SCENARIO = "september"
SLOW_PREFILL_SPEED = 2_000.0
SLOW_TRANSFER_S = 1.5
"""What makes a node slow. Unit: tokens a second, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The figures of a cluster, what its nodes have, and the guards that are switched by hand.

    Durations in seconds as in ``NodeSettings``. ``is_one_slow``: the last prefill node computes
    slowly and holds what it sends.
    """

    engine_version: str
    prefill_pool: int
    decode_pool: int
    context: int = 16_384
    page_size: int = 64
    prefills: int = 1
    decodes: int = 1
    prefill_speed: float = 0.0
    source_s: float = 0.0
    transfer_s: float = 0.0
    offload_s: float = 0.0
    has_prefix_cache: bool = False
    has_host_tier: bool = False
    has_disk_tier: bool = False
    reports_cached: bool = False
    has_gateway: bool = False
    is_one_slow: bool = False
    switches: Mapping[Guard, bool] = field(default_factory=dict)

    def at_full_scale(self) -> Scenario:
        """Answer the same scenario with the pools and the context of the incident."""
        return replace(
            self,
            prefill_pool=_full(self.prefill_pool),
            decode_pool=_full(self.decode_pool),
            context=self.context * _SCALE,
        )


_SCALE = 64
"""From 16,384 to the 1,048,576 tokens of context that the model was offered with."""
_SMALL_POOL = 10_624
_SMALL_POOL_AT_FULL_SCALE = 681_280
"""Source: the operator's report of the incident, prefill pool."""


def _full(pool: int) -> int:
    return _SMALL_POOL_AT_FULL_SCALE if pool == _SMALL_POOL else pool * _SCALE


LATE_WRITE = Scenario(
    engine_version="0.5.20", prefill_pool=20_480, decode_pool=5_120, context=4_096, transfer_s=0.5
)
"""An aborted transfer lands in the next owner's pages.

Every transfer is half a second on the wire. Where its client leaves in that time, decode frees the
pages at once and nobody recalls the write; within 20 s it lands right after the transfer of the
request that has one of the pages next.
Trigger: a prompt of more than 2,560 tokens, whose client leaves 0.1 to 0.4 s after it asked; then,
within 20 s, another of more than 2,560 tokens. The second answers with the first one's text.
Guards: deferred-release (waits for the write), checksum and page-tags (500 in place of the answer).
"""

PAGE_LIFETIME = Scenario(
    engine_version="0.5.20",
    prefill_pool=5_120,
    decode_pool=20_480,
    context=4_096,
    source_s=0.1,
    offload_s=5.0,
    has_prefix_cache=True,
    has_host_tier=True,
    reports_cached=True,
)
"""Pages of prefill are freed while a transfer or a copy to host memory has still to read them.

Trigger, transfer: two different prompts of more than 2,560 tokens at the same time; the first
answers with text of the second.
Trigger, host copy: prompt P of about 4,000 tokens; after its answer, within 5 s, prompt Q of about
4,000; then P again. The last answers with text of Q, which `cached_tokens` counts as P's own.
Guards: deferred-release (reads first, then frees), page-tags; checksum for the transfer only.
"""

SALT_IGNORED = Scenario(
    engine_version="0.5.22",
    prefill_pool=20_480,
    decode_pool=20_480,
    prefill_speed=20_000.0,
    has_prefix_cache=True,
    reports_cached=True,
    switches={Guard.SALT: False},
)
"""The prefix cache shares pages between requests of different `cache_salt`.

Nothing foreign is said: the second tenant learns that somebody asked the same before.
Trigger: a prompt of more than one page under one salt, then the same under another. The second has
`cached_tokens` above 0 and its first token sooner, by a second for 20,000 tokens.
Guards: salt (a miss); page-tags (500 in place of the answer).
"""

GATEWAY_CACHE = Scenario(
    engine_version="0.5.22",
    prefill_pool=20_480,
    decode_pool=20_480,
    has_gateway=True,
    switches={Guard.TENANT_KEY: False},
)
"""A gateway before the router answers equal bodies from a cache that does not know the tenant.

Trigger: the same body with the key of one tenant, then with that of the other. The second answer
has the same id and `x-cache: HIT`; no engine has seen it.
Guard: tenant-key (each tenant hits its own answers only).
"""

SLOW_NODE = Scenario(
    engine_version="0.5.22",
    prefill_pool=20_480,
    decode_pool=20_480,
    prefills=2,
    decodes=2,
    is_one_slow=True,
)
"""One prefill node of two is slow: it answers rightly and late, and nothing leaks.

Trigger: any prompt by way of `prefill-2`: 1.5 s and a second for 2,000 tokens longer than by
`prefill-1`. There is no guard; a restart with other figures ends it.
"""

DISK_TIER = Scenario(
    engine_version="0.5.22",
    prefill_pool=20_480,
    decode_pool=20_480,
    has_prefix_cache=True,
    has_disk_tier=True,
    reports_cached=True,
    switches={Guard.TIER_KEY: False},
)
"""Pages kept in a file come back to whom they do not belong.

The key of a page on disk has neither the salt nor the layout in it, and after a restart an old
index names places of the file that have been written anew.
Trigger, salt: a prompt of more than one page under one salt, then the same under another: the
second has `cached_tokens` above 0.
Trigger, restart: prompt P; restart of the prefill node; prompt Q at least as long; P again. The
last answers with text of Q.
Guards: tier-key (a miss); page-tags (500 in place of the answer).
"""

SCENARIOS = {
    "september": Scenario(engine_version="0.5.19", prefill_pool=_SMALL_POOL, decode_pool=20_480),
    "healthy": Scenario(engine_version="0.5.22", prefill_pool=20_480, decode_pool=20_480),
    "equal-pools": Scenario(
        engine_version="0.5.19", prefill_pool=_SMALL_POOL, decode_pool=_SMALL_POOL
    ),
    "late-write": LATE_WRITE,
    "page-lifetime": PAGE_LIFETIME,
    "salt-ignored": SALT_IGNORED,
    "gateway-cache": GATEWAY_CACHE,
    "slow-node": SLOW_NODE,
    "disk-tier": DISK_TIER,
}
