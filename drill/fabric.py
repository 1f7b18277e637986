"""Where the two legs of a request meet: rooms, published destinations and the transfer of KV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from drill.pool import PagePool


class Leg(Enum):
    """A side of a transfer."""

    PREFILL = auto()
    DECODE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Slots that decode reserved and published."""

    pool: PagePool
    slots: tuple[int, ...]
    writer: int


@dataclass(eq=False, slots=True, kw_only=True)
class Room:
    """One transfer, made by whichever leg comes first."""

    key: tuple[int, int]
    destination: Destination | None = None
    first_token: int | None = None
    transferred: int = 0
    is_sent: bool = False
    failure: str | None = None
    legs_left: set[Leg] = field(default_factory=set)

    def send(self, tokens: Sequence[int], first_token: int) -> None:
        """Write what prefill computed into what decode reserved; nobody compares the counts."""
        target = self.destination
        if target is None:
            return
        self.transferred = min(len(tokens), len(target.slots))
        target.pool.write(target.slots, tokens, target.writer)
        self.first_token = first_token
        self.is_sent = True


class Fabric:
    """All rooms of a cluster, and the bootstrap servers that decode can find."""

    def __init__(self) -> None:
        self._rooms: dict[tuple[int, int], Room] = {}
        self.bootstrap_ports: set[int] = set()

    def join(self, port: int, room_number: int, leg: Leg) -> Room:
        """Answer the room of a leg; a room whose first pair is over starts anew."""
        key = (port, room_number)
        room = self._rooms.get(key)
        if room is None or leg in room.legs_left:
            room = self._rooms[key] = Room(key=key)
        room.legs_left.discard(leg)
        return room

    def lose_prefill(self, port: int) -> None:
        """Fail every room of a prefill process that died; decode notices by its heartbeat."""
        self.bootstrap_ports.discard(port)
        for key, room in self._rooms.items():
            if key[0] == port and not room.is_sent:
                room.failure = f"Losing connection with prefill instance (bootstrap port {port})"

    def leave(self, room: Room, leg: Leg) -> None:
        """Forget a room once both legs are done with it."""
        room.legs_left.add(leg)
        if len(room.legs_left) == len(Leg) and self._rooms.get(room.key) is room:
            del self._rooms[room.key]
