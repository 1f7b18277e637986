"""What one node said of itself at one moment; frozen values that every floor above judges."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import product

from fleet.jsontext import canonical_json

#: Wanted pool as a factor on the context where nobody says otherwise (docs/adr/0003).
DEFAULT_HEADROOM = Decimal("1.25")


class Role(StrEnum):
    """What a node does for a request."""

    PREFILL = "prefill"
    DECODE = "decode"
    UNIFIED = "unified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """The pool of one data-parallel rank, in tokens; None where the engine does not show it.

    ``token_capacity`` is the full-attention pool, ``swa_capacity`` the sliding-window pool.
    Source: /server_info internal_states[i].memory_usage, SGLang 0.5.5 to 0.5.23.
    """

    index: int
    token_capacity: int | None = None
    swa_capacity: int | None = None
    reported_pool: int | None = None

    @property
    def pool(self) -> int | None:
        """Answer the usable tokens of this rank, or None where it shows none."""
        return self.token_capacity if self.token_capacity is not None else self.reported_pool

    @property
    def smallest_kind(self) -> int | None:
        """Answer the smallest of the pool kinds that this rank shows."""
        shown = [
            figure
            for figure in (self.token_capacity, self.swa_capacity, self.reported_pool)
            if figure is not None
        ]
        return min(shown, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a node has in hand, in requests; None where a figure is missing, which is never zero.

    ``queues`` holds every waiting place by name. Source: /v1/loads, else /metrics.
    """

    running: int | None = None
    waiting: int | None = None
    queues: Mapping[str, int | None] = field(default_factory=dict)
    used_tokens: int | None = None
    free_tokens: int | None = None

    @property
    def is_idle(self) -> bool:
        """Answer whether every figure is there and zero; a missing figure is not idle."""
        figures = [self.running, self.waiting, *self.queues.values()]
        return bool(self.queues) and all(figure == 0 for figure in figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """A person's word for what an engine does not show; from ``until`` on it counts as absent.

    ``by`` is empty where nobody signed it: a capture made by hand may hold the bare value.
    """

    key: str
    value: str
    reason: str = ""
    by: str = ""
    until: datetime | None = None

    def holds_at(self, moment: datetime) -> bool:
        """Answer whether it still counts at a moment."""
        return self.until is None or moment < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One node at one moment, built from an allow-list of what its engine answers.

    ``problem`` says in one sentence why the node could not be read (empty where it could).
    ``incomplete`` names what an answer should have shown and did not; a gate that needs it is
    inconclusive. ``exposed_secrets`` names fields in which the engine shows a secret, never values;
    ``secrets_open`` says whether it shows one without a key (None: nobody asked, or no answer).
    ``counters`` only grow while a process lives. ``beside`` holds further figures of the pool, for
    people to see and not to judge by. Lengths and pools in tokens.
    """

    node: str
    engine: str
    role: Role
    taken_at: datetime
    url: str = ""
    problem: str = ""
    incomplete: tuple[str, ...] = ()
    reported_role: Role | None = None
    version: str | None = None
    context: int | None = None
    first_refused: int | None = None
    ranks: tuple[Rank, ...] = ()
    pool: int | None = None
    page_size: int | None = None
    reserve: int | None = None
    allow_auto_truncate: bool | None = None
    transfer_backend: str | None = None
    bootstrap_port: int | None = None
    model: str | None = None
    layout: Mapping[str, str | None] = field(default_factory=dict)
    parallel: Mapping[str, str | None] = field(default_factory=dict)
    flags: Mapping[str, str | None] = field(default_factory=dict)
    started: str | None = None
    random_seed: str | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    load: Load | None = None
    exposed_secrets: tuple[str, ...] = ()
    secrets_open: bool | None = None
    attested: Mapping[str, Attestation] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    beside: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """Answer whether the node answered well enough to be judged at all."""
        return not self.problem

    @property
    def last_admitted(self) -> int | None:
        """Answer L, the longest input that the node takes."""
        return None if self.first_refused is None else self.first_refused - 1

    @property
    def role_is_declared(self) -> bool:
        """Answer whether the engine says that it has the role it was declared with."""
        return self.reported_role == self.role

    def vouched(self, key: str) -> Attestation | None:
        """Answer the word of a person that still counted when the node was read, or None."""
        word = self.attested.get(key)
        return word if word is not None and word.holds_at(self.taken_at) else None

    def identity(self) -> dict[str, object]:
        """Answer everything that, when it changes, voids a proof; throughput is not in it."""
        return {
            "engine": self.engine,
            "role": str(self.reported_role or self.role),
            "version": self.version,
            "context": self.context,
            "first_refused": self.first_refused,
            "pool": self.pool,
            "ranks": [
                [rank.index, rank.token_capacity, rank.swa_capacity, rank.reported_pool]
                for rank in self.ranks
            ],
            "page_size": self.page_size,
            "reserve": self.reserve,
            "allow_auto_truncate": self.allow_auto_truncate,
            "transfer_backend": self.transfer_backend,
            "model": self.model,
            "layout": dict(self.layout),
            "parallel": dict(self.parallel),
            "flags": dict(self.flags),
            "attested": {
                key: word.value for key, word in self.attested.items() if self.vouched(key)
            },
            "started": self.started,
            "random_seed": self.random_seed,
        }

    @property
    def fingerprint(self) -> str:
        """Answer the SHA-256 of the identity, in hex."""
        return hashlib.sha256(canonical_json(self.identity())).hexdigest()

    @property
    def restart_is_visible(self) -> bool:
        """Answer whether a restart would show; without it no proof may be stored."""
        return bool(self.started or self.random_seed or self.counters)


def went_backwards(before: Reading, after: Reading) -> bool:
    """Answer whether a counter of ``after`` is below that of ``before``: the process restarted."""
    return counters_fell(before.counters, after.counters)


def counters_fell(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Answer whether a counter is below what it was; one that is not shown any more tells nothing.

    Unit: as the engine counts, since the process started.
    """
    return any(after.get(name, value) < value for name, value in before.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One entry of a router's worker list, with all that is needed to add it back.

    ``status`` is the router's own word where it has one (smg: "ready", "draining").
    """

    worker_id: str
    url: str
    role: Role | None
    is_healthy: bool
    bootstrap_port: int | None = None
    model: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: int | None = None
    cost: float | None = None
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReading:
    """All that a gate may look at: the readings of one deployment and what people asked of it.

    ``advertised`` is the largest context that the router or an operator's ``--context`` promises;
    it may raise what the engines say, never lower it. ``headroom`` is a factor >= 1.
    ``is_split`` says that somebody declared a prefill or a decode node. ``refused`` names the nodes
    that a canary round saw refuse, as the very processes that were read.
    """

    readings: tuple[Reading, ...]
    headroom: Decimal = DEFAULT_HEADROOM
    advertised: int | None = None
    refused: frozenset[str] = frozenset()

    def of_role(self, role: Role) -> tuple[Reading, ...]:
        """Answer the readings declared with this role."""
        return tuple(reading for reading in self.readings if reading.role is role)

    @property
    def is_split(self) -> bool:
        """Answer whether a prefill or a decode node is declared."""
        return any(reading.role is not Role.UNIFIED for reading in self.readings)

    @property
    def pairs(self) -> tuple[tuple[Reading, Reading], ...]:
        """Answer every prefill x decode pair."""
        return tuple(product(self.of_role(Role.PREFILL), self.of_role(Role.DECODE)))
