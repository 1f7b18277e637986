"""The scheduler of a decode node: preallocation queue, reservation, transfer queue, generation."""

from __future__ import annotations

from collections.abc import Callable

from drill.engine import Sight
from drill.fabric import Destination, Fabric, Leg, Room, digest_of
from drill.limits import CLIP_MAX_NEW_TOKENS
from drill.request import INTERNAL_ERROR, Req
from drill.running import RunningEngine
from drill.sending import linger
from drill.settings import NodeSettings
from drill.world import World

_ABORTED = "Aborted by AbortReq."


class DecodeEngine(RunningEngine):
    """Reserves pages for the length it was told and generates over all of them.

    Source: SGLang disaggregation/decode.py. Nothing here compares how much was reserved with how
    much arrived, and the queues ask only whether a request is finished.
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
        self._prealloc: dict[Req, Room] = {}
        self._transfer: dict[Req, Room] = {}
        self._reserved_at: dict[Req, float] = {}

    @property
    def is_blocked(self) -> bool:
        """Tell whether the head of the queue cannot be reserved, so that all behind it wait."""
        head = next(iter(self._prealloc), None)
        return head is not None and not self._fits(head)

    def _enqueue(self, req: Req) -> None:
        if self._refuse_without_room(req) or self._refuse_at_door(req):
            return
        port = req.bootstrap.port or self.settings.bootstrap_port
        room = self._fabric.join(port, req.bootstrap.room or 0, Leg.DECODE)
        if port not in self._fabric.bootstrap_ports:
            room.failure = (
                "Could not fetch prefill parallel info from bootstrap_addr: "
                f"{req.bootstrap.host}:{port}"
            )
        self._prealloc[req] = room

    def step(self) -> bool:
        """Reserve for the head of the queue, take what was transferred, generate."""
        return any(
            [
                self._do_what_lags(),
                self._preallocate(),
                self._pop_transferred(),
                self._step_batch(),
            ]
        )

    def _preallocate(self) -> bool:
        has_moved = False
        for req, room in list(self._prealloc.items()):
            if req.finished() or room.failure is not None:
                self._fail(req, room, "Decode handshake", room.failure)
            elif self._fits(req):
                self._reserve(req, room)
            else:
                break
            has_moved = True
        return has_moved

    def _fits(self, req: Req) -> bool:
        """Tell whether the pool has room for a request by the engine's own estimate."""
        active = self.running
        held = sum(len(other.input_ids) + len(other.output_ids) for other in active)
        longest = max((_promised(other) for other in active), default=held) - held
        reserve = self.settings.reserved_decode_tokens
        free = self.pool.available - max(reserve * (len(active) + len(self._transfer)), longest)
        return max(len(req.input_ids) + reserve, _promised(req) - held) <= free

    def _reserve(self, req: Req, room: Room) -> None:
        length = len(req.input_ids)
        req.pages = self.pool.take(self.pool.pages_for(length)) or []
        room.destination = Destination(
            pool=self.pool,
            slots=tuple(self.pool.slots(req.pages, length)),
            writer=req.serial,
        )
        del self._prealloc[req]
        self._transfer[req] = room
        self._reserved_at[req] = self._clock()

    def _pop_transferred(self) -> bool:
        has_moved = False
        for req, room in list(self._transfer.items()):
            failure = room.failure or self._overdue(req, room)
            if room.is_sent and room.first_token is not None:
                self._admit(req, room, room.first_token)
            elif failure is not None:
                self.books.counts["transfer_failed"] += 1
                self._fail(req, room, "Decode transfer", failure)
            elif not self._retire(req, room):
                continue
            has_moved = True
        return has_moved

    def _retire(self, req: Req, room: Room) -> bool:
        """End an own pending refusal once prefill has retired the same request, where guarded.

        Source: the outcome table of 0.5.20 for two refusing legs; inferred there, not recorded.
        """
        is_retired = Leg.PREFILL in room.legs_left and not room.is_sent
        if not (self.guards.retires_after_forward and req.to_finish is not None and is_retired):
            return False
        self._forget(req)
        req.update_finish_state()
        self._conclude(req)
        return True

    def _admit(self, req: Req, room: Room, first_token: int) -> None:
        """Let a request generate over its pages, as they are by now."""
        req.transferred, req.cached = room.transferred, room.cached
        if self._has_other_sum(req, room):
            return
        self._count_cached(req)
        req.output_ids.append(first_token)
        self._forget(req)
        self._run(req)

    def _has_other_sum(self, req: Req, room: Room) -> bool:
        """End a request whose pages do not hold what prefill computed, where that is compared."""
        if not self.guards.sums_transfers:
            return False
        got = digest_of(self.pool.tokens_at(self.pool.slots(req.pages, len(req.input_ids))))
        if got == room.digest:
            return False
        self.books.log.append(
            f"ERROR KV checksum mismatch req={req.rid} bootstrap_room={req.bootstrap.room} "
            f"expected=0x{room.digest:08x} got=0x{got:08x}"
        )
        self.books.counts["transfer_failed"] += 1
        self._forget(req)
        req.fail("KV checksum mismatch", INTERNAL_ERROR)
        self._conclude(req)
        return True

    def _overdue(self, req: Req, room: Room) -> str | None:
        elapsed = self._clock() - self._reserved_at[req]
        if room.is_sent or elapsed < self.settings.waiting_timeout_s:
            return None
        number = req.bootstrap.room
        return f"Request {number} timed out after {elapsed:.1f}s in KVPoll.WaitingForInput"

    def _fail(self, req: Req, room: Room, what: str, why: str | None) -> None:
        message = (
            f"{what} failed for request rank=0 decode_req.req.rid='{req.rid}' "
            f"decode_req.req.bootstrap_room={req.bootstrap.room} with exception "
            f"KVTransferError(bootstrap_room={req.bootstrap.room}): {why}"
        )
        self.books.log.append(f"ERROR {message}")
        room.failure = why
        self._forget(req)
        self._abandon(req, room)
        req.fail(message, INTERNAL_ERROR)
        self._conclude(req)

    def _abandon(self, req: Req, room: Room) -> None:
        """Part with the pages of a transfer that failed, of which a write may be under way."""
        if room.wire is not None and not room.wire.is_done and self.guards.defers_release:
            self._hold(req, room.wire)
            return
        linger(room, self._clock())
        self._release(req)

    def _forget(self, req: Req) -> None:
        self._reserved_at.pop(req, None)
        for queue in (self._prealloc, self._transfer):
            room = queue.pop(req, None)
            if room is not None:
                self._fabric.leave(room, Leg.DECODE)

    def abort(self, req: Req) -> None:
        """Give a request up; prefill is told, as in SGLang."""
        room = self._prealloc.get(req) or self._transfer.get(req)
        if room is None:
            self._abort_running(req)
            return
        room.failure = _ABORTED
        self._forget(req)
        self._abandon(req, room)

    def die(self) -> None:
        """Fail the rooms of this process."""
        for queue in (self._prealloc, self._transfer):
            for room in queue.values():
                room.failure = "Losing connection with the decode instance"

    def next_deadline(self) -> float | None:
        """Answer when the oldest reservation runs out of time."""
        timeout_s = self.settings.waiting_timeout_s
        out_of_time = [at + timeout_s for at in self._reserved_at.values()]
        return min((*out_of_time, *self._lag_deadlines()), default=None)

    def queue_lengths(self) -> dict[str, int]:
        """Answer the queue figures under their names in `/v1/loads`."""
        return {
            "running": len(self._batch),
            "waiting": 0,
            "decode_prealloc_queue_reqs": len(self._prealloc),
            "decode_transfer_queue_reqs": len(self._transfer),
        }


def _promised(req: Req) -> int:
    return len(req.input_ids) + min(req.max_new_tokens or 0, CLIP_MAX_NEW_TOKENS)
