"""The named figures that a drill can start with; each of them can be overridden."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_SCENARIO = "september"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The figures of a cluster."""

    engine_version: str
    prefill_pool: int
    decode_pool: int
    context: int = 16_384
    page_size: int = 64


SCENARIOS = {
    "september": Scenario(engine_version="0.5.19", prefill_pool=10_624, decode_pool=20_480),
    "healthy": Scenario(engine_version="0.5.22", prefill_pool=20_480, decode_pool=20_480),
    "equal-pools": Scenario(engine_version="0.5.19", prefill_pool=10_624, decode_pool=10_624),
}
