"""The scheduler of a prefill node: bootstrap queue, forward pass, transfer, in-flight queue."""

from __future__ import annotations

from collections.abc import Callable

from drill.engine import Engine, Sight
from drill.fabric import Fabric, Leg, Room
from drill.request import INTERNAL_ERROR, Finish, Req
from drill.settings import NodeSettings


class PrefillEngine(Engine):
    """Computes prompts and sends their KV to what decode reserved.

    Source: SGLang disaggregation/prefill.py. The queues ask only whether a request is finished; a
    refusal that is pending in `to_finish` does not stop them, and success overwrites it.
    """

    def __init__(
        self,
        settings: NodeSettings,
        *,
        sight: Sight,
        clock: Callable[[], float],
        fabric: Fabric,
    ) -> None:
        super().__init__(settings, sight=sight, clock=clock)
        self._fabric = fabric
        self._bootstrap: dict[Req, Room] = {}
        self._waiting: dict[Req, Room] = {}
        self._inflight: dict[Req, Room] = {}

    def _enqueue(self, req: Req) -> None:
        if self._refuse_without_room(req) or self._refuse_at_door(req):
            return
        req.max_new_tokens = 1
        number = req.bootstrap.room or 0
        room = self._fabric.join(self.settings.bootstrap_port, number, Leg.PREFILL)
        self._bootstrap[req] = room

    def step(self) -> bool:
        """Move bootstrapped requests on, compute what fits, conclude what was sent."""
        return any([self._pop_bootstrapped(), self._compute(), self._conclude_sent()])

    def _pop_bootstrapped(self) -> bool:
        has_moved = False
        for req, room in list(self._bootstrap.items()):
            failure = room.failure or self._overdue(req, room)
            if req.finished() or failure is not None:
                self._fail(req, room, f"Prefill bootstrap failed for {self._who(req)}", failure)
            elif room.destination is not None:
                del self._bootstrap[req]
                self._waiting[req] = room
            else:
                continue
            has_moved = True
        return has_moved

    def _compute(self) -> bool:
        has_moved = False
        for req, room in list(self._waiting.items()):
            first = self._forward(req)
            if first is None:
                break
            del self._waiting[req]
            has_moved = True
            if self._retire(req, room):
                continue
            req.output_ids.append(first)
            self._inflight[req] = room
            slots = self.pool.slots(req.pages, len(req.input_ids))
            room.send(self.pool.tokens_at(slots), first)
        return has_moved

    def _retire(self, req: Req, room: Room) -> bool:
        """End a request with a pending refusal after its forward pass, where guarded.

        The sender is closed on this side only: decode is not told.
        """
        if not (self.guards.retires_after_forward and req.to_finish is not None):
            return False
        req.update_finish_state()
        self._fabric.leave(room, Leg.PREFILL)
        self._conclude(req)
        return True

    def _conclude_sent(self) -> bool:
        sent = [req for req, room in self._inflight.items() if room.is_sent or room.failure]
        for req in sent:
            room = self._inflight[req]
            if room.failure is not None:
                what = f"Prefill transfer failed for {self._who(req)}"
                self._fail(req, room, what, room.failure)
                continue
            del self._inflight[req]
            if req.finished_reason is None or not req.finished_reason.is_abort:
                req.finished_reason = Finish(kind="length", length=0)
            self._fabric.leave(room, Leg.PREFILL)
            self._conclude(req)
        return bool(sent)

    def _overdue(self, req: Req, room: Room) -> str | None:
        elapsed = self._clock() - req.entered_at
        if room.destination is not None or elapsed < self.settings.bootstrap_timeout_s:
            return None
        number = req.bootstrap.room
        return f"Request {number} timed out after {elapsed:.1f}s in KVPoll.Bootstrapping"

    def _who(self, req: Req) -> str:
        return f"request rank=0 req.rid='{req.rid}' req.bootstrap_room={req.bootstrap.room}"

    def _fail(self, req: Req, room: Room, what: str, why: str | None) -> None:
        message = f"{what} with exception KVTransferError(bootstrap_room={room.key[1]}): {why}"
        self.books.log.append(f"WARNING {message}")
        self.books.counts["bootstrap_failed"] += 1
        self._forget(req)
        req.fail(message, INTERNAL_ERROR)
        self._conclude(req)

    def _forget(self, req: Req) -> None:
        for queue in (self._bootstrap, self._waiting, self._inflight):
            room = queue.pop(req, None)
            if room is not None:
                self._fabric.leave(room, Leg.PREFILL)

    def abort(self, req: Req) -> None:
        """Drop a request whose client left; decode is not told, as in SGLang."""
        self._forget(req)
        self.pool.give_back(req.pages)
        req.pages = []

    def die(self) -> None:
        """Fail the rooms of this process."""
        self._fabric.lose_prefill(self.settings.bootstrap_port)

    def next_deadline(self) -> float | None:
        """Answer when the oldest request that waits for decode runs out of time."""
        entered = [req.entered_at for req in self._bootstrap]
        return min(entered) + self.settings.bootstrap_timeout_s if entered else None

    def queue_lengths(self) -> dict[str, int]:
        """Answer the queue figures under their names in `/v1/loads`."""
        return {
            "running": 0,
            "waiting": len(self._waiting),
            "prefill_bootstrap_queue_reqs": len(self._bootstrap),
            "prefill_inflight_queue_reqs": len(self._inflight),
        }
