"""The scheduler of a prefill node: bootstrap queue, forward pass, transfer, in-flight queue."""

from __future__ import annotations

import math
from collections.abc import Callable

from drill.engine import Engine, Sight
from drill.fabric import Fabric, Leg, Parcel, Room, digest_of
from drill.request import INTERNAL_ERROR, Finish, Req
from drill.sending import TAGS_DIFFER, Sending
from drill.settings import NodeSettings
from drill.world import World


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
        world: World | None = None,
    ) -> None:
        super().__init__(settings, sight=sight, clock=clock, world=world)
        self._fabric = fabric
        self._bootstrap: dict[Req, Room] = {}
        self._waiting: dict[Req, Room] = {}
        self._inflight: dict[Req, Room] = {}
        self._computed_at: dict[Req, float] = {}

    @property
    def is_blocked(self) -> bool:
        """Tell whether the head of the queue cannot be scheduled, so that all behind it wait."""
        head = next(iter(self._waiting), None)
        return head is not None and not head.pages and not self._is_schedulable(head)

    def _enqueue(self, req: Req) -> None:
        if self._refuse_without_room(req) or self._refuse_at_door(req):
            return
        req.max_new_tokens = 1
        number = req.bootstrap.room or 0
        room = self._fabric.join(self.settings.bootstrap_port, number, Leg.PREFILL)
        self._bootstrap[req] = room

    def step(self) -> bool:
        """Move bootstrapped requests on, compute what fits, conclude what was sent."""
        return any(
            [
                self._do_what_lags(),
                self._pop_bootstrapped(),
                self._compute(),
                self._conclude_sent(),
            ]
        )

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
            first = self._forward(req) if self._is_computed(req) else None
            if first is None:
                break
            del self._waiting[req]
            self._computed_at.pop(req, None)
            has_moved = True
            if self._retire(req, room) or self._end_untagged(req, room):
                continue
            req.output_ids.append(first)
            self._inflight[req] = room
            if room.failure is None:
                self._sending(req, room, first).start(self.pool, self.settings, self._clock())
        return has_moved

    def _sending(self, req: Req, room: Room, first: int) -> Sending:
        slots = self.pool.slots(req.pages, len(req.input_ids))
        cached, digest = dict(req.cached), digest_of(req.input_ids)

        def read() -> Parcel:
            seen = self._attended(req, slots)
            writers = seen.as_seen_by(req.serial)
            return Parcel(
                tokens=seen.tokens,
                first_token=first,
                sender=req.serial,
                digest=digest,
                writers=writers if set(writers) != {req.serial} else None,
                cached=cached,
            )

        return Sending(req=req, room=room, read=read, tags_pages=lambda: self.guards.tags_pages)

    def _end_untagged(self, req: Req, room: Room) -> bool:
        """End a request that met another writer's page, and tell decode."""
        if not req.finished():
            return False
        room.failure = TAGS_DIFFER
        self._fabric.leave(room, Leg.PREFILL)
        self._conclude(req)
        return True

    def _is_computed(self, req: Req) -> bool:
        """Tell whether the forward pass has had its time; its pages are held from its start."""
        speed = self.settings.prefill_speed
        if not speed:
            return True
        if req not in self._computed_at and self._take_pages(req):
            computed = len(req.input_ids) - req.cached_tokens
            self._computed_at[req] = self._clock() + computed / speed
        return self._clock() >= self._computed_at.get(req, math.inf)

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
        sent = [req for req, room in self._inflight.items() if self._is_over(room)]
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

    def _is_over(self, room: Room) -> bool:
        """Tell whether a transfer counts as over; unguarded, its source may still be unread."""
        has_no_patience = room.is_posted and not self.guards.defers_release
        return room.is_sent or room.failure is not None or has_no_patience

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
        self._computed_at.pop(req, None)
        for queue in (self._bootstrap, self._waiting, self._inflight):
            room = queue.pop(req, None)
            if room is not None:
                self._fabric.leave(room, Leg.PREFILL)

    def abort(self, req: Req) -> None:
        """Drop a request whose client left; decode is not told, as in SGLang."""
        self._forget(req)
        self._release(req)

    def die(self) -> None:
        """Fail the rooms of this process."""
        self._fabric.lose_prefill(self.settings.bootstrap_port)

    def next_deadline(self) -> float | None:
        """Answer when a forward pass ends or a request that waits for decode is out of time."""
        timeout_s = self.settings.bootstrap_timeout_s
        out_of_time = [req.entered_at + timeout_s for req in self._bootstrap]
        late = (*out_of_time, *self._computed_at.values(), *self._lag_deadlines())
        return min(late, default=None)

    def queue_lengths(self) -> dict[str, int]:
        """Answer the queue figures under their names in `/v1/loads`."""
        return {
            "running": len(self._computed_at),
            "waiting": len(self._waiting) - len(self._computed_at),
            "prefill_bootstrap_queue_reqs": len(self._bootstrap),
            "prefill_inflight_queue_reqs": len(self._inflight),
        }
