"""What every node of a cluster shares: switched guards, who wrote what, and room on disk."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from drill.guards import GuardSwitches

_ROOMS_REMEMBERED = 4096
_SALTS_REMEMBERED = 100_000


class Origins:
    """Who wrote what, across nodes and restarts: one serial for both legs of a request."""

    def __init__(self) -> None:
        self._next = count(1)
        self._rooms: dict[int, tuple[int, str]] = {}
        self._salts: dict[int, str] = {}

    def serial_of(self, room: int | None, role: str) -> int:
        """Answer the serial of a leg: that of the other leg if it came first, else a new one."""
        if room is not None:
            serial, other = self._rooms.pop(room, (0, role))
            if other != role:
                return serial
        serial = next(self._next)
        if room is not None:
            self._rooms[room] = (serial, role)
            while len(self._rooms) > _ROOMS_REMEMBERED:
                del self._rooms[next(iter(self._rooms))]
        return serial

    def note(self, serial: int, salt: str | None) -> None:
        """Remember the salt of a request, if it has one."""
        if salt is None:
            return
        self._salts[serial] = salt
        while len(self._salts) > _SALTS_REMEMBERED:
            del self._salts[next(iter(self._salts))]

    def salt_of(self, serial: int) -> str | None:
        """Answer the salt of a request."""
        return self._salts.get(serial)


@dataclass(slots=True, kw_only=True)
class World:
    """One for a cluster."""

    switches: GuardSwitches = field(default_factory=GuardSwitches)
    origins: Origins = field(default_factory=Origins)
    _disk: tempfile.TemporaryDirectory[str] | None = None

    def directory_of(self, node: str) -> Path:
        """Answer the directory of a node's disk tier, which outlives the node's process."""
        if self._disk is None:
            self._disk = tempfile.TemporaryDirectory(prefix="drill-pages-")
        path = Path(self._disk.name) / node
        path.mkdir(exist_ok=True)
        return path

    def close(self) -> None:
        """Delete what is on disk."""
        if self._disk is not None:
            disk, self._disk = self._disk, None
            disk.cleanup()
