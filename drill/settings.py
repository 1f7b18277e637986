"""The figures of a node and of a cluster, checked where they come in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from packaging.version import InvalidVersion, Version

from drill.limits import max_req_input_len

SHORTEST_CONTEXT = 16
DEFAULT_RESERVED_DECODE_TOKENS = 512
"""Source: SGLang server_args, num_reserved_decode_tokens."""
DEFAULT_TIMEOUT_S = 300.0
"""Source: SGLang environ, SGLANG_DISAGGREGATION_WAITING_TIMEOUT and _BOOTSTRAP_TIMEOUT."""
DEFAULT_BOOTSTRAP_PORT = 8998
OLDEST_VERSION = Version("0.5.5")


class WrongFigure(Exception):
    """A figure with which no node can start; the text says which one and why."""


class Role(StrEnum):
    """What a node does."""

    PREFILL = "prefill"
    DECODE = "decode"
    UNIFIED = "unified"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node is started with.

    ``prefill_speed`` is how many prompt tokens a prefill node computes in a second; 0 is at once.
    ``source_s`` is how long a transfer takes until it reads its source, ``transfer_s`` how long it
    is on the wire, ``offload_s`` how long a copy to host memory takes until it reads the page.
    """

    name: str
    role: Role
    engine_version: str
    pool: int
    context: int
    page_size: int
    model: str
    bootstrap_port: int = DEFAULT_BOOTSTRAP_PORT
    reserved_decode_tokens: int = DEFAULT_RESERVED_DECODE_TOKENS
    waiting_timeout_s: float = DEFAULT_TIMEOUT_S
    bootstrap_timeout_s: float = DEFAULT_TIMEOUT_S
    prefill_speed: float = 0.0
    source_s: float = 0.0
    transfer_s: float = 0.0
    offload_s: float = 0.0
    has_prefix_cache: bool = False
    has_host_tier: bool = False
    has_disk_tier: bool = False
    reports_cached: bool = False
    api_key: str | None = field(default=None, repr=False)

    @property
    def version(self) -> Version:
        """Answer the engine version, to be compared."""
        return Version(self.engine_version)

    @property
    def has_tiers(self) -> bool:
        """Tell whether pages are copied to anything below the pool."""
        return self.has_host_tier or self.has_disk_tier

    @property
    def first_refused(self) -> int:
        """Answer the shortest input that the node's scheduler refuses."""
        return max_req_input_len(self.context, self.pool)

    def with_changes(self, **changes: Any) -> NodeSettings:  # noqa: ANN401 fields of many types
        """Answer the same settings with other fields, unchecked."""
        return replace(self, **changes)

    def with_figures(self, **figures: str | float) -> NodeSettings:
        """Answer the same settings with other figures. Raises WrongFigure."""
        changed = self.with_changes(**figures)
        check(changed)
        return changed


def check(settings: NodeSettings) -> None:
    """Check that a node can start with these figures. Raises WrongFigure."""
    where = f"node {settings.name}"
    _check_version(where, settings.engine_version)
    if settings.page_size < 1:
        raise WrongFigure(f"{where}: page size {settings.page_size} is below 1")
    if settings.context < SHORTEST_CONTEXT:
        raise WrongFigure(f"{where}: context {settings.context} is below {SHORTEST_CONTEXT}")
    if settings.pool < 1 or settings.pool % settings.page_size:
        raise WrongFigure(
            f"{where}: pool {settings.pool} is not a positive multiple of the page size "
            f"{settings.page_size}"
        )
    if settings.first_refused < 1:
        raise WrongFigure(f"{where}: pool {settings.pool} admits no input at all")
    if settings.reserved_decode_tokens < 0:
        raise WrongFigure(f"{where}: reserved decode tokens are below 0")
    if min(settings.waiting_timeout_s, settings.bootstrap_timeout_s) <= 0:
        raise WrongFigure(f"{where}: a time-out must be above 0 seconds")
    _check_paces(where, settings)


def _check_paces(where: str, settings: NodeSettings) -> None:
    if not 0 <= settings.prefill_speed < math.inf:
        raise WrongFigure(f"{where}: the prefill speed must be 0 or above")
    durations = (settings.source_s, settings.transfer_s, settings.offload_s)
    if not all(0 <= duration_s < math.inf for duration_s in durations):
        raise WrongFigure(f"{where}: a duration must be 0 seconds or above")


def _check_version(where: str, text: str) -> None:
    try:
        version = Version(text)
    except InvalidVersion:
        raise WrongFigure(f"{where}: engine version {text!r} cannot be read") from None
    if version < OLDEST_VERSION:
        raise WrongFigure(f"{where}: engine version {text} is older than {OLDEST_VERSION}")
