"""A room of its own for engines: network, processes, /proc and shared memory apart from the rest.

Mooncake listens on every interface, at ports of its choice. In the room there is only loopback, and
when the room closes the kernel ends all that runs in it, even if the tests were killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field

_TOOLS = ("unshare", "nsenter", "ip", "mount")
#: Runs as the first process of the room, which lives until its standard input closes.
_KEEPER = (
    "mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm && ip link set lo up"
    " && echo open && exec cat >/dev/null"
)
_FIRST = ("sh", "-c", _KEEPER)
_APART = ("--net", "--mount", "--pid")
_CLOSING_S = 20


class NoRoom(Exception):
    """The machine gives no room; the text says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """An open room. ``keeper`` holds it open."""

    keeper: subprocess.Popen[str] = field(repr=False)

    def within(self, command: list[str]) -> list[str]:
        """Answer the command that runs another one wholly inside the room."""
        return [*self._enter("net", "mnt", "pid"), *command]

    def on_its_network(self, command: list[str]) -> list[str]:
        """Answer the command that gives another one the room's network and nothing else of it."""
        return [*self._enter("net"), *command]

    def close(self) -> None:
        """End all that runs in the room."""
        assert self.keeper.stdin is not None
        assert self.keeper.stdout is not None
        self.keeper.stdin.close()
        self.keeper.wait(timeout=_CLOSING_S)
        self.keeper.stdout.close()

    def _enter(self, *kinds: str) -> list[str]:
        here = f"/proc/{self.keeper.pid}/ns"
        words = ["nsenter"]
        if os.geteuid() != 0:
            words += [f"--user={here}/user", "--preserve-credentials"]
        for kind in kinds:
            option = {"net": "net", "mnt": "mount", "pid": "pid"}[kind]
            # The keeper's parent stays outside of the processes that it made a room for.
            words.append(f"--{option}={here}/{'pid_for_children' if kind == 'pid' else kind}")
        return [*words, "--"]


def open_room() -> Room:
    """Answer a new room. Raises NoRoom."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise NoRoom(f"these programs are missing: {', '.join(missing)}")
    mapped = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    keeper = subprocess.Popen(  # noqa: S603 - fixed words
        ["unshare", *mapped, *_APART, "--fork", "--kill-child", *_FIRST],  # noqa: S607 - in PATH
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    room = Room(keeper=keeper)
    assert keeper.stdout is not None
    if keeper.stdout.readline().strip() != "open":
        room.close()
        raise NoRoom("unshare was refused: run the tests as root, or allow user namespaces")
    return room
