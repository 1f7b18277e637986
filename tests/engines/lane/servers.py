"""Starts the servers of a lane in a room, waits until they answer, and asks them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engines.lane.folders import HERE
from tests.engines.lane.room import Room, open_room

ROOT = HERE.parents[2]
#: On busy cores a start takes four times what it takes on idle ones. Unit: seconds.
STARTING_S = 420
_VERB_S = 600
_LOOK_S = 0.2
_TAIL_CHARACTERS = 4000
#: What of our environment would change an engine.
_FOREIGN = ("PYTHON", "SGLANG_", "VLLM_", "MC_", "UCX_", "LD_", "PAGEWARDEN_", "DJANGO_")


class NotUp(Exception):
    """A server did not come up; the text ends with the last lines of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One process to start. ``ready`` is the URL that answers 200 once it can work."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    ready: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a verb of the product said: its exit code, its JSON object, and standard error."""

    code: int
    document: dict[str, Any]
    errors: str

    def check(self, name: str, target: str | None = None) -> dict[str, Any]:
        """Answer the one check of this name, about this target where one is given."""
        found = [
            one
            for one in self.document["checks"]
            if one["check"] == name and target in {None, one["target"]}
        ]
        assert len(found) == 1, f"{len(found)} checks {name}: {self.document}"
        return dict(found[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Servers that run. ``urls`` by name of the server; they can be reached only by the lane."""

    room: Room
    urls: Mapping[str, str]
    logs: Path
    model: str

    def verb(self, *words: object) -> Said:
        """Run a verb of the product on the lane's network, as from the shell."""
        python = [sys.executable, "-m", "config.cli", *map(str, words)]
        done = subprocess.run(  # noqa: S603 - our own module
            self.room.on_its_network(python),
            check=False,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_VERB_S,
        )
        said = json.loads(done.stdout) if done.stdout.lstrip().startswith("{") else {}
        return Said(code=done.returncode, document=said, errors=done.stderr)

    def ask(
        self, method: str, url: str, body: object = None, *, timeout_s: float = 60.0
    ) -> tuple[int, str]:
        """Answer status and text of one request; status 0 where nothing came."""
        done = subprocess.run(  # noqa: S603 - our own program
            self.room.on_its_network([sys.executable, str(HERE / "asking.py"), str(timeout_s)]),
            check=True,
            input=json.dumps([method, url, body]),
            capture_output=True,
            text=True,
        )
        status, text = json.loads(done.stdout)
        return status, text

    def log(self, name: str) -> str:
        """Answer what a server has logged so far."""
        return (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def tail(self, name: str) -> str:
        """Answer the end of what a server has logged."""
        return f"{name}: {self.log(name)[-_TAIL_CHARACTERS:]}"


@contextmanager
def running(
    servers: tuple[Server, ...], *, urls: Mapping[str, str], logs: Path, model: str
) -> Iterator[Lane]:
    """Give a lane whose servers answer; all of it ends with the block. Raises NoRoom, NotUp."""
    logs.mkdir(parents=True, exist_ok=True)
    # Undone from the last to the first: the room closes before its folder goes.
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="pagewarden-lane-"))
        room = open_room()
        lane = Lane(room=room, urls=urls, logs=logs, model=model)
        started: list[subprocess.Popen[bytes]] = []
        stack.callback(_reap, started)
        stack.callback(room.close)
        started += [_start(lane, server, Path(name)) for server in servers]
        _wait(lane, servers, started)
        yield lane


def clean_environment() -> dict[str, str]:
    """Answer our environment without what would change an engine, and offline."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    return {
        **kept,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "no_proxy": "*",
    }


def _start(lane: Lane, server: Server, scratch: Path) -> subprocess.Popen[bytes]:
    with (lane.logs / f"{server.name}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own words
            lane.room.within(list(server.command)),
            env={**server.environment, "TMPDIR": str(scratch)},
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _reap(started: list[subprocess.Popen[bytes]]) -> None:
    for process in started:
        process.wait()


def _wait(
    lane: Lane, servers: tuple[Server, ...], processes: list[subprocess.Popen[bytes]]
) -> None:
    """Come back once every server is ready. Raises NotUp, at once where one has ended."""
    urls = [server.ready for server in servers]
    words = [sys.executable, str(HERE / "asking.py"), str(STARTING_S), "wait", *urls]
    waiter = subprocess.Popen(  # noqa: S603 - our own program
        lane.room.on_its_network(words), stderr=subprocess.PIPE, text=True
    )
    ended = _first_ended(waiter, processes)
    if ended is not None:
        waiter.terminate()
    _, silent = waiter.communicate()
    if ended is not None:
        name = servers[ended].name
        raise NotUp(f"{name} ended with {processes[ended].returncode}:\n{lane.tail(name)}")
    if waiter.returncode != 0:
        names = [one.name for one in servers if one.ready in silent.split()]
        raise NotUp(f"not ready within {STARTING_S} s:\n" + "\n".join(map(lane.tail, names)))


def _first_ended(
    waiter: subprocess.Popen[str], processes: list[subprocess.Popen[bytes]]
) -> int | None:
    """Answer which process ended before the waiter did, or None."""
    while waiter.poll() is None:
        for number, process in enumerate(processes):
            if process.poll() is not None:
                return number
        time.sleep(_LOOK_S)
    return None
