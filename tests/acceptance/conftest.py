"""A real `up` on an empty data folder, and a real Chromium to look at it with."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 150
#: What a test run sets for itself and `up` must choose on its own.
_OWN_CHOICE = ("DATABASE_URL", "MIGRATION_DATABASE_URL", "BROKER_URL", "DJANGO_SETTINGS_MODULE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running `up`: its address, its data folder and its process."""

    url: str
    folder: Path
    process: subprocess.Popen[str]

    @property
    def passwords(self) -> dict[str, str]:
        """Answer the first sign-ins."""
        text = (self.folder / "first-sign-ins.txt").read_text(encoding="utf-8")
        pairs = (line.split(": ", 1) for line in text.splitlines() if line.count(": ") == 1)
        return {name: word for name, word in pairs if name in {"commander", "responder"}}


def environment(**more: str) -> dict[str, str]:
    """Answer the environment of a user who has set nothing."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _OWN_CHOICE and not name.startswith("PAGEWARDEN_")
    }
    venv = os.environ.get("PAGEWARDEN_VENV")
    return {**kept, **({"PAGEWARDEN_VENV": venv} if venv else {}), **more}


def start_up(folder: Path, port: int) -> Running:
    """Start `up` as a user does and wait for its ready line."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [str(ROOT / "pagewarden"), "up", "--port", str(port), "--data-dir", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("ready: "):
        process.kill()
        raise AssertionError(f"up is not ready: {line!r} {process.communicate()[1]}")
    return Running(url=line.removeprefix("ready: ").strip(), folder=folder, process=process)


def end_up(running: Running) -> int:
    """End `up` as a user does; answers its exit code."""
    running.process.send_signal(signal.SIGTERM)
    try:
        running.process.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        running.process.kill()
        running.process.communicate()
        raise
    return running.process.returncode


@pytest.fixture(scope="module")
def up(free_ports: Callable[[], int]) -> Iterator[Running]:
    """Start `up` on an empty folder for one module.

    The folder is open to pass through, as pytest's own are not: so the database lies inside it.
    """
    parent = Path(tempfile.mkdtemp(prefix="pagewarden-up-"))
    parent.chmod(0o711)
    running = start_up(parent / "data", free_ports())
    try:
        yield running
        assert end_up(running) == 0
    finally:
        shutil.rmtree(parent, ignore_errors=True)
