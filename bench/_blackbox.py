"""Runs Debian's prometheus-blackbox-exporter as the peer, and tells the CPU time that it took."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import aiohttp

PACKAGE: Final = "prometheus-blackbox-exporter"
_CONFIG: Final = """\
modules:
  http_2xx:
    prober: http
    timeout: 5s
    http: {preferred_ip_protocol: ip4}
"""
_CONCURRENCY: Final = 64
_LEAST_S: Final = 0.2


class NotMeasured(Exception):
    """The peer could not be run; the text says why."""


def find_exporter(*, may_install: bool) -> str:
    """Answer the program, installed where that can be done. Raises NotMeasured."""
    found = shutil.which(PACKAGE)
    if found:
        return found
    if not may_install:
        raise NotMeasured(f"{PACKAGE} is not installed, and nothing was to be")
    apt_get = shutil.which("apt-get")
    if apt_get is None:
        raise NotMeasured("there is no apt-get to install it with")
    if os.geteuid() != 0:
        raise NotMeasured(f"{PACKAGE} is not installed, and only root can install it")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update", "-qq"), ("install", "-y", "-qq", PACKAGE)):
        subprocess.run(  # noqa: S603 - fixed words
            (apt_get, *words), check=False, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
    found = shutil.which(PACKAGE)
    if found is None:
        raise NotMeasured(f"{PACKAGE} could not be installed")
    return found


def probe_cpu_s(urls: Sequence[str], *, may_install: bool) -> float:
    """Answer the CPU seconds that the exporter takes to probe each address once.

    Raises NotMeasured.
    """
    with _running(find_exporter(may_install=may_install)) as (pid, port):
        before = _cpu_s(pid)
        asyncio.run(_probe_all(urls, port))
        spent = _cpu_s(pid) - before
    if spent < _LEAST_S:
        raise NotMeasured("too few probes for the clock of /proc, which has ticks of 10 ms")
    return spent


@contextlib.contextmanager
def _running(program: str) -> Iterator[tuple[int, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "blackbox.yml"
        config.write_text(_CONFIG)
        process = subprocess.Popen(  # noqa: S603 - Debian's program
            (
                program,
                f"--config.file={config}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=error",
            ),
            env={**os.environ, "GOMAXPROCS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _await_port(port)
            yield process.pid, port
        finally:
            process.terminate()
            process.wait(timeout=10)


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise NotMeasured(f"{PACKAGE} did not answer within 10 s")


async def _probe_all(urls: Sequence[str], port: int) -> None:
    places = asyncio.Semaphore(_CONCURRENCY)
    async with aiohttp.ClientSession() as session:

        async def probe(url: str) -> bool:
            params = {"target": url, "module": "http_2xx"}
            async with places, session.get(f"http://127.0.0.1:{port}/probe", params=params) as got:
                return "probe_success 1" in await got.text()

        succeeded = await asyncio.gather(*map(probe, urls))
    if not all(succeeded):
        raise NotMeasured(f"{succeeded.count(False)} of {len(urls)} probes failed")


def _cpu_s(pid: int) -> float:
    """Answer user and system time. Source: proc(5), fields 14 and 15 of stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
