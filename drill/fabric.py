"""Where the two legs of a request meet: rooms, published destinations and the transfer of KV."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from drill.lagging import Lagging
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

    @property
    def pages(self) -> frozenset[int]:
        """Answer the pages of the slots."""
        return frozenset(slot // self.pool.page_size for slot in self.slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What prefill sends: tokens, who wrote each, and the digest of what it computed.

    Shape: `writers` is None where the request wrote all of it, else one entry a token, and
    `sender` stands for the request itself. `cached` are tokens by tier that it did not compute.
    """

    tokens: Sequence[int]
    first_token: int
    sender: int
    digest: int
    writers: Sequence[int] | None = None
    cached: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False, slots=True, kw_only=True)
class Room:
    """One transfer, made by whichever leg comes first.

    `wire` is the write that was posted and has not landed; `is_posted` tells that prefill counts
    the transfer as sent although its source has still to be read.
    """

    key: tuple[int, int]
    destination: Destination | None = None
    first_token: int | None = None
    transferred: int = 0
    cached: dict[str, int] = field(default_factory=dict)
    digest: int = 0
    wire: Lagging | None = None
    is_posted: bool = False
    is_sent: bool = False
    failure: str | None = None
    legs_left: set[Leg] = field(default_factory=set)

    def send(self, parcel: Parcel) -> None:
        """Write what prefill computed into what decode reserved; nobody compares the counts."""
        target = self.destination
        if target is None:
            return
        self.transferred = min(len(parcel.tokens), len(target.slots))
        if parcel.writers is None:
            target.pool.write(target.slots, parcel.tokens, target.writer)
        else:
            writers = [target.writer if one == parcel.sender else one for one in parcel.writers]
            target.pool.copy_in(target.slots, parcel.tokens, writers, by=target.writer)
        self.first_token = parcel.first_token
        self.cached, self.digest = parcel.cached, parcel.digest
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


def digest_of(tokens: Sequence[int]) -> int:
    """Answer the checksum of tokens. Source: Adler-32, --disaggregation-enable-kv-checksum."""
    return zlib.adler32(array("i", tokens).tobytes())
