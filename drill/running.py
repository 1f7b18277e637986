"""The running batch: each step writes the last token's KV and says one token more."""

from __future__ import annotations

from collections.abc import Callable

from drill.engine import Engine, Sight
from drill.model import Speaker
from drill.request import INTERNAL_ERROR, Finish, Req
from drill.settings import NodeSettings
from drill.world import World

_OUT_OF_MEMORY = "Out of memory even after retracting all other requests in the decode batch."


class RunningEngine(Engine):
    """An engine that generates: decode and unified nodes."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        sight: Sight,
        clock: Callable[[], float],
        world: World | None = None,
    ) -> None:
        super().__init__(settings, sight=sight, clock=clock, world=world)
        self._batch: dict[Req, Speaker] = {}

    @property
    def running(self) -> list[Req]:
        """Answer the requests that are generating."""
        return list(self._batch)

    def _run(self, req: Req) -> None:
        """Let a request generate whose first token is there, unless that ends it."""
        req.update_finish_state()
        if req.finished():
            self._conclude(req)
            return
        speaker = self._speaker(req)
        if speaker is None:
            self._conclude(req)
            return
        speaker.skip(req.output_ids[0])
        self._batch[req] = speaker
        req.on_change(req)

    def _do_what_lags(self) -> bool:
        has_moved = super()._do_what_lags()
        self._look_again()
        return has_moved

    def _look_again(self) -> None:
        """Attend anew where something landed on the pages of a running request."""
        touched = self.pool.backlog.take_touched()
        for req in self._batch if touched else ():
            if touched.isdisjoint(req.pages):
                continue
            speaker = self._speaker(req)
            if speaker is not None:
                for _ in req.output_ids:
                    speaker.next()
                self._batch[req] = speaker

    def _step_batch(self) -> bool:
        is_busy = bool(self._batch)
        moved = [req for req in self._batch if self._step_one(req)]
        if is_busy and not moved:
            last = next(reversed(self._batch))
            last.fail(_OUT_OF_MEMORY, INTERNAL_ERROR)
            moved = [last]
        for req in moved:
            if req.finished():
                del self._batch[req]
                self._conclude(req)
            else:
                req.on_change(req)
        return is_busy

    def _step_one(self, req: Req) -> bool:
        """Say one token; tell whether a slot for the one before could be had."""
        if req.to_finish is None and not req.finished():
            position = len(req.input_ids) + len(req.output_ids) - 1
            if not self._has_slot(req, position):
                return False
            slot = self.pool.slot(req.pages, position)
            self.pool.write([slot], req.output_ids[-1:], req.serial)
            req.output_ids.append(self._batch[req].next())
        req.update_finish_state()
        return True

    def _has_slot(self, req: Req, position: int) -> bool:
        if position < len(req.pages) * self.pool.page_size:
            return True
        more = self.pool.take(1)
        req.pages.extend(more or ())
        return more is not None

    def _abort_running(self, req: Req) -> None:
        if req in self._batch:
            req.to_finish = Finish(kind="abort", message="Aborted")
