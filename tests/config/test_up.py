"""`up` as people meet it: ready, one of a kind, gone when told, and back after a crash."""

from __future__ import annotations

import http.client
import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What the set-up of the tests names, and `up` here is to find out by itself.
NOT_INHERITED = ("DATABASE_URL", "MIGRATION_DATABASE_URL", "BROKER_URL", "DJANGO_SETTINGS_MODULE")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True, kw_only=True)
class Up:
    """One data folder and whatever `up` runs on it."""

    data: Path
    port: int = field(default_factory=free_port)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: str) -> subprocess.Popen[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("PAGEWARDEN_")}
        env = {k: v for k, v in env.items() if k not in NOT_INHERITED}
        env["PAGEWARDEN_VENV"] = os.environ.get("PAGEWARDEN_VENV", str(ROOT / ".venv"))
        command = [str(ROOT / "pagewarden"), "up", "--port", str(self.port)]
        process = subprocess.Popen(  # noqa: S603
            [*command, "--data-dir", str(self.data), *words],
            cwd="/",
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def start_ready(self) -> subprocess.Popen[str]:
        process = self.start()
        assert process.stdout
        assert process.stdout.readline() == f"ready: http://127.0.0.1:{self.port}\n"
        return process

    def refused(self, *words: str) -> str:
        """Start where that cannot be; answer the one line that says why."""
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        complaints = err.splitlines()
        assert (process.returncode, out, len(complaints)) == (3, "", 1), err
        return complaints[0]

    def pids(self) -> dict[str, int]:
        record = json.loads((self.data / "run.json").read_text(encoding="utf-8"))
        return {name: found["pid"] for name, found in record["processes"].items()}

    def health(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    up = Up(data=tmp_path / "data")
    yield up
    for process in up.started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=15)
    pointer = up.data / "database.json"
    if pointer.exists():
        shutil.rmtree(up.data / json.loads(pointer.read_text(encoding="utf-8"))["home"])


def wait_gone(pids: list[int], within_s: float = 10) -> None:
    """Wait for the kernel's word that each process has ended."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([descriptor], [], [], within_s)[0], f"{pid} is still there"
        finally:
            os.close(descriptor)


def group_of(pid: int) -> list[int]:
    """Answer a process with all that it started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
        return [pid, *(grand for child in file.read().split() for grand in group_of(int(child)))]


def test_up_lives_dies_and_comes_back(up: Up) -> None:
    first = up.start_ready()
    assert up.health() == 200
    assert set(up.pids()) == {"postgres", "valkey", "drill", "web", "worker"}
    for name in ("first-sign-ins.txt", "run.json", "drill.json", "keys/sealing-key"):
        assert stat.S_IMODE((up.data / name).stat().st_mode) == 0o600
    assert f"pid {first.pid}" in Up(data=up.data).refused()
    up_and_all = group_of(first.pid)
    # The database's own processes and the five parts at least.
    assert len(up_and_all) > 8
    first.kill()
    wait_gone(up_and_all)

    started_s = time.monotonic()
    second = up.start_ready()
    assert time.monotonic() - started_s < 8
    worker = up.pids()["worker"]
    os.kill(worker, signal.SIGKILL)
    until_s = time.monotonic() + 20
    while up.pids().get("worker", worker) == worker:
        assert time.monotonic() < until_s
        time.sleep(0.05)

    up_and_all = group_of(second.pid)
    started_s = time.monotonic()
    second.send_signal(signal.SIGTERM)
    assert second.wait(10) == 0
    assert time.monotonic() - started_s < 10
    wait_gone(up_and_all, within_s=0)
    assert not (up.data / "run.json").exists()


def test_a_stop_before_it_is_ready_leaves_nothing(up: Up) -> None:
    process = up.start("--no-drill")
    assert process.stderr
    while "making the database" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert not (up.data / "run.json").exists()


def test_a_taken_port_is_one_line_and_touches_nothing(up: Up) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", up.port))
        taken.listen()
        assert f"port {up.port} is taken" in up.refused()
    assert not up.data.exists()


def test_a_folder_that_cannot_be_written_is_one_line(up: Up, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    up.data = tmp_path / "file" / "data"
    assert "cannot be used" in up.refused()
