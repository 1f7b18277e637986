"""The scheduler of a unified node: one pool, one queue, no transfer."""

from __future__ import annotations

from collections.abc import Callable

from drill.engine import Sight
from drill.request import Req
from drill.running import RunningEngine
from drill.settings import NodeSettings
from drill.world import World


class UnifiedEngine(RunningEngine):
    """A node that computes prompts and answers itself."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        sight: Sight,
        clock: Callable[[], float],
        world: World | None = None,
    ) -> None:
        super().__init__(settings, sight=sight, clock=clock, world=world)
        self._waiting: list[Req] = []

    @property
    def is_blocked(self) -> bool:
        """Tell whether the head of the queue cannot be scheduled, so that all behind it wait."""
        return bool(self._waiting) and not self._is_schedulable(self._waiting[0])

    def _enqueue(self, req: Req) -> None:
        self._waiting.append(req)

    def step(self) -> bool:
        """Admit the head of the queue, then generate."""
        has_moved = self._do_what_lags() | self._step_batch()
        while self._waiting:
            req = self._waiting[0]
            first = self._forward(req)
            if first is None:
                break
            self._waiting.pop(0)
            req.output_ids.append(first)
            self._run(req)
            has_moved = True
        return has_moved

    def abort(self, req: Req) -> None:
        """Drop a waiting request, end a running one at its next step."""
        if req in self._waiting:
            self._waiting.remove(req)
        self._abort_running(req)

    def next_deadline(self) -> float | None:
        """Answer when a copy is due; nothing else here has a time."""
        return min(self._lag_deadlines(), default=None)

    def queue_lengths(self) -> dict[str, int]:
        """Answer the queue figures under their names in `/v1/loads`."""
        return {"running": len(self._batch), "waiting": len(self._waiting)}
