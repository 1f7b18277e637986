"""The supervisor: what crashes starts again, what is given up is told, nothing is left over."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.exits import ToolError
from config.up import processes
from config.up.processes import Service, Supervisor, last_line

ROOT = Path(__file__).resolve().parents[2]
FOREVER = "import threading; threading.Event().wait()"
#: Starts a grandchild and ignores being asked to end.
STUBBORN = (
    "import signal, subprocess, sys, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "subprocess.Popen(['sleep', '1000']); print('up', flush=True); threading.Event().wait()"
)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(said: list[str]) -> Iterator[Supervisor]:
    supervisor = Supervisor(root=ROOT, say=said.append)
    yield supervisor
    supervisor.stop()


def python_service(tmp_path: Path, code: str, **over: object) -> Service:
    given = {"name": "part", "env": dict(os.environ), "log": tmp_path / "part.log"} | over
    return Service(argv=(sys.executable, "-c", code), **given)  # type: ignore[arg-type]


def wait_until(is_true: object, within_s: float = 10) -> None:
    until_s = time.monotonic() + within_s
    while not is_true():  # type: ignore[operator]
        assert time.monotonic() < until_s, "it did not happen in time"
        time.sleep(0.01)


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


def test_a_killed_child_starts_again(
    supervisor: Supervisor, said: list[str], tmp_path: Path
) -> None:
    supervisor.start(python_service(tmp_path, FOREVER))
    first = supervisor.pids()["part"]
    os.kill(first, signal.SIGKILL)

    def has_restarted() -> bool:
        supervisor.check()
        return supervisor.pids().get("part", first) != first

    wait_until(has_restarted)
    assert "part was ended by SIGKILL" in said[0]


@pytest.mark.parametrize("is_essential", [True, False])
def test_a_child_that_crashes_again_and_again_is_given_up_by_name(
    is_essential: bool,
    supervisor: Supervisor,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "BACK_OFF_S", (0.0, 0.0))
    service = python_service(tmp_path, "raise SystemExit(7)", is_essential=is_essential)
    supervisor.start(service)

    def is_given_up() -> bool:
        try:
            supervisor.check()
        except ToolError as exc:
            said.append(str(exc))
            return True
        return not supervisor.children

    wait_until(is_given_up)
    # One start and one for each pause.
    assert "ended with 7 3 times and is given up" in said[-1]
    assert str(service.log) in said[-1]


def test_what_does_not_end_by_itself_is_killed_with_all_it_started(
    supervisor: Supervisor, said: list[str], tmp_path: Path
) -> None:
    service = python_service(tmp_path, STUBBORN, stop_within_s=0.2)
    supervisor.start(service)
    wait_until(lambda: service.log.exists() and "up" in service.log.read_text(encoding="ascii"))
    group = supervisor.pids()["part"]
    supervisor.stop()

    def is_gone() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    # A killed grandchild counts until init has taken notice of its end.
    wait_until(is_gone)
    assert said == ["part did not end by itself and was killed"]


def test_ranks_stop_one_after_the_other(supervisor: Supervisor, tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    code = (
        "import signal, sys, threading; done = threading.Event();"
        "signal.signal(signal.SIGTERM, lambda *_: done.set());"
        "sys.stdout.write('up\\n'); sys.stdout.flush(); done.wait(); print(sys.argv[1])"
    )
    for rank, name in ((0, "database"), (3, "web")):
        argv = (sys.executable, "-c", code, name)
        supervisor.start(Service(name=name, argv=argv, env=dict(os.environ), log=log, rank=rank))
    wait_until(lambda: log.read_text(encoding="ascii").count("up") == 2)
    supervisor.stop()
    assert log.read_text(encoding="ascii").split() == ["up", "up", "web", "database"]


def test_a_program_that_fails_is_told_by_its_last_error(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    code = "import sys; sys.exit('ERROR: no space left\\nsome hint')"
    with pytest.raises(ToolError, match="part failed: ERROR: no space left") as caught:
        supervisor.run(python_service(tmp_path, code), within_s=10)
    assert "\n" not in str(caught.value)


def test_a_program_that_overruns_is_ended(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="did not end within"):
        supervisor.run(python_service(tmp_path, FOREVER), within_s=0.2)


def test_the_last_line_of_a_missing_log_is_a_word(tmp_path: Path) -> None:
    assert last_line(tmp_path / "none.log") == "no log"


PARENT = """
import json, os, sys, threading, time
from pathlib import Path
from config.up.account import database_account
from config.up.processes import Service, Supervisor

supervisor = Supervisor(root=Path("/"), say=print)
account = database_account(os.environ)
for name, user in (("own", None), ("unprivileged", account)):
    supervisor.start(
        Service(
            name=name,
            argv=("/bin/sleep", "1000"),
            env={},
            log=Path(sys.argv[1]) / f"{name}.log",
            account=user,
        )
    )
# Once each has become its program, its wish to die with us stands.
while any(b"sleep" not in Path(f"/proc/{pid}/cmdline").read_bytes()
          for pid in supervisor.pids().values()):
    time.sleep(0.01)
print(json.dumps(list(supervisor.pids().values())), flush=True)
threading.Event().wait()
"""


def test_a_killed_parent_leaves_no_orphan(tmp_path: Path) -> None:
    parent = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", PARENT, tmp_path], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert parent.stdout
    with parent.stdout:
        pids = json.loads(parent.stdout.readline())
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    wait_gone(pids)


def test_a_child_whose_parent_is_gone_already_does_not_begin(tmp_path: Path) -> None:
    flag = tmp_path / "begun"
    argv = [sys.executable, str(processes.CHILD), str(os.getpid() + 1), "9", "-1", "-1"]
    done = subprocess.run([*argv, "/bin/touch", str(flag)], check=False, capture_output=True)  # noqa: S603
    assert done.returncode != 0
    assert not flag.exists()
