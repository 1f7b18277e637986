"""Starts child processes, keeps them running, and ends every one of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from common.exits import ToolError
from config.up.account import Account

CHILD = Path(__file__).with_name("child.py")
POLL_S = 0.1
#: After a crash: how long to wait before each new try; then the child is given up.
BACK_OFF_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
#: A child that ran this long had a good start; its earlier crashes no longer count.
STEADY_AFTER_S = 60.0
LOG_LIMIT_BYTES = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One child that is to run for as long as we do."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    account: Account | None = None
    #: Where standard output goes; the log when None.
    output: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    #: What the kernel sends when we die without a word.
    death_signal: signal.Signals = signal.SIGKILL
    stop_within_s: float = 4.0
    #: Children of one rank stop together, higher ranks first.
    rank: int = 0
    #: Whether all must end when this one cannot be kept running.
    is_essential: bool = True


@dataclass(slots=True, kw_only=True)
class Child:
    """A service as it runs now."""

    service: Service
    process: subprocess.Popen[bytes]
    started_at_s: float
    crashes: int = 0
    #: When to try again, on the monotonic clock; None while it runs.
    retry_at_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Runs services. To be used from the main thread only: a child dies with the thread."""

    root: Path
    say: Callable[[str], None]
    on_change: Callable[[], None] = lambda: None
    children: dict[str, Child] = field(default_factory=dict)

    def start(self, service: Service) -> None:
        """Start a service. Raises OSError."""
        self.children[service.name] = Child(
            service=service, process=self._spawn(service), started_at_s=time.monotonic()
        )
        self.on_change()

    def run(self, service: Service, *, within_s: float) -> None:
        """Run a program to its end. Raises ToolError when it fails or overruns."""
        process = self._spawn(service)
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise ToolError(
                f"{service.name} did not end within {within_s:.0f} s; see {service.log}"
            ) from None
        finally:
            _kill_group(process)
        if code != 0:
            raise ToolError(f"{service.name} failed: {last_line(service.log)} (see {service.log})")

    def wait_ready(self, name: str, is_ready: Callable[[], bool], *, within_s: float) -> None:
        """Wait until a service answers. Raises ToolError when it dies or does not."""
        until_s = time.monotonic() + within_s
        while not is_ready():
            self.check()
            if name not in self.children:
                raise ToolError(f"{name} does not start; the reason stands above and in its log")
            if time.monotonic() > until_s:
                log = self.children[name].service.log
                raise ToolError(f"{name} did not answer within {within_s:.0f} s; see {log}")
            time.sleep(POLL_S)

    def watch(self) -> NoReturn:
        """Keep all services running; comes back only by an error. Raises ToolError."""
        while True:
            self.check()
            time.sleep(POLL_S)

    def check(self) -> None:
        """Start again what crashed, once its pause is over. Raises ToolError."""
        for child in list(self.children.values()):
            if child.retry_at_s is not None:
                if time.monotonic() >= child.retry_at_s:
                    self._restart(child)
            elif child.process.poll() is not None:
                self._note_crash(child)

    def stop(self) -> None:
        """End all services, those of one rank together, in the reverse order of their start."""
        for rank in sorted({child.service.rank for child in self.children.values()}, reverse=True):
            group = [c for c in self.children.values() if c.service.rank == rank]
            for child in reversed(group):
                with contextlib.suppress(ProcessLookupError):
                    child.process.send_signal(child.service.stop_signal)
            for child in group:
                self._end(child)
        self.children.clear()

    def pids(self) -> dict[str, int]:
        """Answer the process ids of what runs, by name."""
        return {name: c.process.pid for name, c in self.children.items() if c.retry_at_s is None}

    def _end(self, child: Child) -> None:
        try:
            child.process.wait(child.service.stop_within_s)
        except subprocess.TimeoutExpired:
            self.say(f"{child.service.name} did not end by itself and was killed")
        # The group, so that nothing that the child started stays behind.
        _kill_group(child.process)

    def _note_crash(self, child: Child) -> None:
        service = child.service
        # What it started may still hold its port or files.
        _kill_group(child.process)
        if time.monotonic() - child.started_at_s > STEADY_AFTER_S:
            child.crashes = 0
        how = _describe_end(child.process.returncode)
        if child.crashes >= len(BACK_OFF_S):
            line = f"{service.name} {how} {child.crashes + 1} times and is given up; see "
            if service.is_essential:
                raise ToolError(f"{line}{service.log}")
            self.say(f"{line}{service.log}; the rest runs on")
            del self.children[service.name]
            self.on_change()
            return
        pause_s = BACK_OFF_S[child.crashes]
        child.crashes += 1
        child.retry_at_s = time.monotonic() + pause_s
        self.say(f"{service.name} {how}; starting it again in {pause_s} s (log: {service.log})")

    def _restart(self, child: Child) -> None:
        child.process = self._spawn(child.service)
        child.started_at_s = time.monotonic()
        child.retry_at_s = None
        self.on_change()

    def _spawn(self, service: Service) -> subprocess.Popen[bytes]:
        account = service.account
        wrapper = [sys.executable, "-I", "-S", str(CHILD), str(os.getpid())]
        wrapper += [str(int(service.death_signal))]
        wrapper += [str(account.uid), str(account.gid)] if account else ["-1", "-1"]
        with contextlib.ExitStack() as files:
            log = files.enter_context(_open_log(service.log))
            output = log
            if service.output is not None:
                service.output.unlink(missing_ok=True)
                output = files.enter_context(_open_log(service.output))
            return subprocess.Popen(  # noqa: S603 - our own programs
                [*wrapper, *service.argv],
                env=dict(service.env),
                # A user of the database's own cannot enter every folder that we can.
                cwd="/" if account else self.root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                # A session of its own: Ctrl-C in the terminal reaches us alone, and we stop
                # the children in their order.
                start_new_session=True,
            )


def rotate(logs: Path) -> None:
    """Put the logs of the last start aside, under the name with `.1`. Raises OSError."""
    for log in logs.glob("*.log"):
        log.replace(log.with_name(f"{log.name}.1"))


def last_line(log: Path) -> str:
    """Answer the line of a log that says best what went wrong."""
    try:
        text = log.read_bytes()[-20_000:].decode(errors="replace")
    except OSError:
        return "no log"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line.lower() for word in ("error", "fatal"))]
    return next(iter([*telling[-1:], *lines[-1:]]), "nothing was logged")[:300]


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[int]:
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LOG_LIMIT_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _describe_end(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
