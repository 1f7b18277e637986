"""How prefill sends a prompt's KV: when its source is read, and when what was read lands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drill.fabric import Parcel, Room
from drill.lagging import Lagging
from drill.pool import PagePool
from drill.request import Req
from drill.settings import NodeSettings

LINGER_S = 20.0
"""How long the write of an aborted transfer may still land; below the engine's 30 s of deferral."""

TAGS_DIFFER = "KV page tag mismatch: a page of this request carries the mark of another writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One transfer as prefill starts it; `read` answers what its source holds at that moment."""

    req: Req
    room: Room
    read: Callable[[], Parcel]
    tags_pages: Callable[[], bool]

    def start(self, source: PagePool, settings: NodeSettings, now: float) -> None:
        """Send at once, or as late as the node's figures say."""
        if settings.source_s:
            self._read_later(source, now + settings.source_s)
        elif settings.transfer_s and self.room.destination is not None:
            self._land_later(self.read(), now + settings.transfer_s)
        else:
            self._land(self.read())

    def _read_later(self, source: PagePool, due_at: float) -> None:
        self.room.is_posted = True
        source.backlog.add(
            Lagging(
                pages=frozenset(self.req.pages),
                owner=self.req.serial,
                due_at=due_at,
                act=lambda: self._land(self.read()),
            )
        )

    def _land_later(self, parcel: Parcel, due_at: float) -> None:
        target = self.room.destination
        if target is None:
            return
        self.room.wire = target.pool.backlog.add(
            Lagging(
                pages=target.pages,
                owner=target.writer,
                due_at=due_at,
                act=lambda: self._land(parcel),
                is_write=True,
            )
        )

    def _land(self, parcel: Parcel) -> None:
        if parcel.writers is not None and self.tags_pages():
            self.room.failure = self.room.failure or TAGS_DIFFER
            return
        self.room.send(parcel)


def linger(room: Room, now: float) -> None:
    """Let the posted write of an aborted transfer land whenever it will: nobody recalls it."""
    if room.wire is not None and not room.wire.is_done:
        room.wire.due_at = now + LINGER_S
