"""The workers that a router knows: registration, health, circuit breakers and selection."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

PREFILL, DECODE, UNKNOWN = "prefill", "decode", "unknown"

_FAILURES_TO_OPEN = 10
_OPEN_S = 60.0
_SUCCESSES_TO_CLOSE = 3
_FAILED_CHECKS_TO_DROP = 3
_GOOD_CHECKS_TO_RETURN = 2
"""Source of all five: sglang-router 0.3.2, defaults."""


class Breaker:
    """The circuit breaker of one worker: closed, open, half open."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._successes = 0
        self._opened_at: float | None = None

    @property
    def lets_through(self) -> bool:
        """Tell whether the worker may be selected."""
        return self._opened_at is None or self._clock() - self._opened_at >= _OPEN_S

    def note(self, *, is_success: bool) -> None:
        """Count the outcome of a request."""
        if not is_success:
            self._failures += 1
            self._successes = 0
            if self._failures >= _FAILURES_TO_OPEN:
                self._opened_at = self._clock()
            return
        self._failures = 0
        self._successes += 1
        if self._successes >= _SUCCESSES_TO_CLOSE:
            self._opened_at = None


@dataclass(eq=False, slots=True, kw_only=True)
class Worker:
    """One worker, registered or about to be."""

    url: str
    wanted_type: str
    bootstrap_port: int | None = None
    model_id: str | None = None
    api_key: str | None = field(default=None, repr=False)
    labels: dict[str, str] = field(default_factory=dict)
    priority: int = 50
    cost: float = 1.0
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    added_at: float = field(default_factory=time.time)
    metadata: dict[str, str] = field(default_factory=dict)
    registered: asyncio.Event = field(default_factory=asyncio.Event)
    is_healthy: bool = False
    load: int = 0
    breaker: Breaker = field(default_factory=Breaker)
    failed_checks: int = 0
    good_checks: int = 0

    @property
    def is_registered(self) -> bool:
        """Tell whether the worker has said who it is."""
        return self.registered.is_set()

    @property
    def is_usable(self) -> bool:
        """Tell whether requests may go to it."""
        return self.is_registered and self.is_healthy and self.breaker.lets_through

    def register(self, model_info: Mapping[str, Any], mode: str) -> None:
        """Take in what the worker says of itself."""
        self.model_id = self.model_id or str(model_info.get("served_model_name", UNKNOWN))
        self.metadata = {
            "model_path": str(model_info.get("model_path", "")),
            "served_model_name": str(model_info.get("served_model_name", "")),
            "tp_size": "1",
            "dp_size": "1",
            "disaggregation_mode": mode,
            "architectures": '["LlamaForCausalLM"]',
            "model_type": "llama",
            **self.labels,
        }
        self.is_healthy = True
        self.registered.set()

    def note_check(self, *, is_good: bool) -> None:
        """Count a health check; three bad ones drop the worker, two good ones bring it back."""
        self.good_checks = self.good_checks + 1 if is_good else 0
        self.failed_checks = 0 if is_good else self.failed_checks + 1
        if self.failed_checks >= _FAILED_CHECKS_TO_DROP:
            self.is_healthy = False
        elif self.good_checks >= _GOOD_CHECKS_TO_RETURN:
            self.is_healthy = True

    def as_json(self) -> dict[str, Any]:
        """Answer the worker as `/workers` lists it."""
        known = self.is_registered
        body: dict[str, Any] = {
            "id": self.id,
            "url": self.url,
            "model_id": self.model_id if known else UNKNOWN,
            "priority": self.priority if known else 0,
            "cost": self.cost,
            "worker_type": self.wanted_type if known else UNKNOWN,
            "is_healthy": self.is_healthy,
            "load": self.load,
            "connection_mode": "HTTP" if known else UNKNOWN,
        }
        if known and self.bootstrap_port is not None and self.wanted_type == PREFILL:
            body["bootstrap_port"] = self.bootstrap_port
        if known:
            body["metadata"] = self.metadata
        body["disable_health_check"] = False
        if not known:
            body["job_status"] = {
                "job_type": "AddWorker",
                "worker_url": self.url,
                "status": "processing",
                "message": None,
                "timestamp": int(self.added_at),
            }
        return body


class NoWorker(Exception):
    """No worker can be selected; the text is the router's message."""


class Registry:
    """Every worker of a router, in memory only."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._turns = {PREFILL: 0, DECODE: 0}

    def all(self) -> list[Worker]:
        """Answer the workers, oldest first."""
        return list(self._workers.values())

    def get(self, worker_id: str) -> Worker | None:
        """Answer a worker by its id, or None."""
        return self._workers.get(worker_id)

    def add(self, worker: Worker) -> Worker:
        """Add a worker; the one that has its URL already stays and is answered."""
        known = next((old for old in self.all() if old.url == worker.url), None)
        if known is not None:
            return known
        self._workers[worker.id] = worker
        return worker

    def remove(self, worker_id: str) -> None:
        """Forget a worker; requests in flight on it go on."""
        self._workers.pop(worker_id, None)

    def count(self, kind: str) -> int:
        """Answer how many registered workers of a kind there are."""
        return sum(one.is_registered and one.wanted_type == kind for one in self.all())

    @property
    def healthy(self) -> list[Worker]:
        """Answer the healthy workers, whatever their breakers say."""
        return [one for one in self.all() if one.is_healthy]

    @property
    def is_ready(self) -> bool:
        """Tell whether there is a healthy worker of each kind."""
        return {PREFILL, DECODE} <= {one.wanted_type for one in self.healthy}

    def select_pair(self) -> tuple[Worker, Worker]:
        """Answer the next prefill and decode worker in turn. Raises NoWorker."""
        return self._select(PREFILL), self._select(DECODE)

    def _select(self, kind: str) -> Worker:
        of_kind = [one for one in self.all() if one.is_registered and one.wanted_type == kind]
        usable = [one for one in of_kind if one.is_usable]
        if usable:
            self._turns[kind] += 1
            return usable[self._turns[kind] % len(usable)]
        if of_kind:
            raise NoWorker(
                f"No available servers: No available {kind} workers "
                "(all circuits open or unhealthy)"
            )
        raise NoWorker(
            f"No available servers: No {kind} workers available. "
            f"Please check if {kind} servers are configured and healthy."
        )
