"""The shell script: finds a Python, installs once and whole, and becomes the verb."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Stands in for the command line: tells how it was called.
STUB_CLI = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "pid": os.getpid(), "prefix": sys.prefix,
                  "cwd": os.getcwd(), "path": sys.path[0]}), flush=True)
if sys.argv[1:] == ["wait"]:
    sys.stdin.read()
"""
GOOD_PYTHON = 'exec "$REAL_PYTHON" "$@"\n'
OLD_PYTHON = "exit 1\n"
BROKEN_SHIM = "echo 'pyenv: python3: command not found' >&2; exit 127\n"
UV_INSTALLS = 'echo "$*" >>"$CHECKOUT/installed"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A checkout with made-up locks and programs of ours instead of the machine's."""

    path: Path
    bin: Path

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "REAL_PYTHON": sys._base_executable,  # type: ignore[attr-defined]  # noqa: SLF001
            "CHECKOUT": str(self.path),
        }

    def run(self, *words: str, script: Path | None = None, **env: str) -> Done:
        command = [str(script or self.path / "pagewarden"), *words]
        done = subprocess.run(  # noqa: S603
            command,
            check=False,
            cwd="/",
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    def installed(self) -> list[str]:
        """Answer which locks were installed, in their order."""
        record = self.path / "installed"
        lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
        return [Path(line.split()[-1]).name for line in lines]

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}", encoding="ascii")
        path.chmod(0o755)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    path = tmp_path / "check out"
    (path / "config").mkdir(parents=True)
    shutil.copy(ROOT / "pagewarden", path)
    (path / "config" / "__init__.py").touch()
    (path / "config" / "cli.py").write_text(STUB_CLI, encoding="ascii")
    for lock in ("requirements.lock", "requirements-dev.lock"):
        (path / lock).write_text(f"# {lock}\n", encoding="ascii")
    checkout = Checkout(path=path, bin=tmp_path / "bin")
    checkout.bin.mkdir()
    checkout.program("python3", GOOD_PYTHON)
    checkout.program("uv", UV_INSTALLS)
    return checkout


def test_the_verb_runs_in_the_environment_beside_the_script(checkout: Checkout) -> None:
    done = checkout.run("gate", "--context", "1 2")
    assert done.code == 0
    called = json.loads(done.out)
    assert called["argv"] == ["gate", "--context", "1 2"]
    assert called["prefix"] == str(checkout.path / ".venv")
    # File names stay the user's, and our modules come first.
    assert (called["cwd"], called["path"]) == ("/", str(checkout.path))
    assert checkout.installed() == ["requirements.lock"]


def test_standard_output_belongs_to_the_verb(checkout: Checkout) -> None:
    checkout.program("uv", f"echo noise; {UV_INSTALLS}")
    done = checkout.run("gate")
    assert done.out.count("\n") == 1
    assert "noise" in done.err


def test_nothing_is_installed_twice(checkout: Checkout) -> None:
    checkout.run("gate")
    assert checkout.run("gate").err == ""
    assert checkout.installed() == ["requirements.lock"]


def test_a_changed_lock_is_installed(checkout: Checkout) -> None:
    checkout.run("gate")
    (checkout.path / "requirements.lock").write_text("# another\n", encoding="ascii")
    checkout.run("gate")
    assert checkout.installed() == ["requirements.lock"] * 2


def test_a_development_environment_serves_every_verb_and_stays_one(checkout: Checkout) -> None:
    checkout.run("gate")
    checkout.run("lint")
    checkout.run("gate")
    (checkout.path / "requirements.lock").write_text("# another\n", encoding="ascii")
    checkout.run("gate")
    assert checkout.installed() == ["requirements.lock"] + ["requirements-dev.lock"] * 2


def test_an_interrupted_install_is_done_again(checkout: Checkout) -> None:
    checkout.program("uv", UV_INSTALLS + "kill -9 $PPID\n")
    assert checkout.run("gate").code == -signal.SIGKILL
    checkout.program("uv", UV_INSTALLS)
    # The killed one's lock is stale and hinders nobody.
    assert checkout.run("gate").code == 0
    assert len(checkout.installed()) == 2
    assert not (checkout.path / ".venv" / ".pagewarden-lock").exists()


def test_two_at_once_install_once(checkout: Checkout) -> None:
    gate = checkout.path / "gate"
    os.mkfifo(gate)
    checkout.program("uv", UV_INSTALLS + f'read -r _ <"{gate}"\n')
    command = [str(checkout.path / "pagewarden"), "judge"]
    both = [
        subprocess.Popen(  # noqa: S603
            command, env=checkout.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    # Opening waits until one of them installs; by then the other waits or is about to.
    with gate.open("w", encoding="ascii") as opened:
        opened.write("go\n")
    ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert checkout.installed() == ["requirements.lock"]


def test_it_works_through_symbolic_links(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to(checkout.path / "pagewarden")
    (tmp_path / "second").symlink_to("first")
    done = checkout.run("gate", script=tmp_path / "second")
    assert done.code == 0
    assert checkout.installed() == ["requirements.lock"]


@pytest.mark.parametrize("program", [OLD_PYTHON, BROKEN_SHIM])
def test_without_a_recent_python_there_is_one_line(checkout: Checkout, program: str) -> None:
    for name in ("python3", "python3.14", "python3.13", "python3.12", "python3.11"):
        checkout.program(name, program)
    for words in (["gate"], ["up"], []):
        done = checkout.run(*words)
        assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
        assert "Python 3.11 or later" in done.err
    assert not (checkout.path / ".venv" / "bin").exists()


def test_a_broken_shim_does_not_hide_a_python_behind_it(checkout: Checkout) -> None:
    checkout.program("python3", BROKEN_SHIM)
    for name in ("python3.14", "python3.13", "python3.12"):
        checkout.program(name, BROKEN_SHIM)
    checkout.program("python3.11", GOOD_PYTHON)
    assert checkout.run("gate").code == 0


def test_the_named_python_is_the_only_one_tried(checkout: Checkout, tmp_path: Path) -> None:
    done = checkout.run("gate", PAGEWARDEN_PYTHON=str(tmp_path / "none"))
    assert done.code == 3
    assert "PAGEWARDEN_PYTHON" in done.err


def test_a_place_that_cannot_be_written_is_one_line(checkout: Checkout) -> None:
    done = checkout.run("gate", PAGEWARDEN_VENV="/proc/pagewarden")
    assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
    assert "PAGEWARDEN_VENV" in done.err


def test_the_environment_may_lie_elsewhere(checkout: Checkout, tmp_path: Path) -> None:
    assert checkout.run("gate", PAGEWARDEN_VENV=str(tmp_path / "venv")).code == 0
    assert not (checkout.path / ".venv").exists()
    assert (tmp_path / "venv" / "bin" / "python").exists()


def test_help_needs_nothing_installed(checkout: Checkout) -> None:
    for words in ([], ["--help"]):
        assert checkout.run(*words).code == 0
    assert checkout.installed() == []
    assert not (checkout.path / ".venv").exists()


def test_the_verb_takes_the_place_of_the_script(checkout: Checkout) -> None:
    checkout.run("gate")
    process = subprocess.Popen(  # noqa: S603
        [str(checkout.path / "pagewarden"), "wait"],
        env=checkout.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    # So that a signal to the script is one to the verb.
    assert json.loads(process.stdout.readline())["pid"] == process.pid
    process.communicate(b"")


def test_a_failed_install_is_the_tools_failure(checkout: Checkout) -> None:
    checkout.run("gate")
    (checkout.path / "requirements.lock").write_text("no-such-package==1.0\n", encoding="ascii")
    checkout.program("uv", "exit 1\n")
    # pip then refuses a line without a hash, before it asks any index.
    done = checkout.run("gate", PIP_NO_INDEX="1")
    assert done.code == 3
    assert "installing requirements.lock failed" in done.err
    assert done.out == ""
    # So the next run tries again and does not take it for done.
    assert not (checkout.path / ".venv" / ".pagewarden-stamp").exists()
