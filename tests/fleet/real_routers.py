"""Real routers of other people, from their wheels, on loopback; and a small engine before them."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

#: Kind of router -> the module of its wheel and the words that start it.
LAUNCH = {
    "sglang-router": ("sglang_router", ("sglang_router", "launch")),
    "smg": ("smg", ("smg", "launch")),
    "vllm-router": ("vllm_router", ("vllm_router.launch_router",)),
}
SPLIT_FLAG = {"vllm-router": "--vllm-pd-disaggregation"}
_READY_WITHIN_S = 30
_MODEL = "small-model"


def need(kind: str) -> None:
    """Skip where the wheel of a router is not there: it is built for x86-64 Linux only."""
    module, _ = LAUNCH[kind]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{kind} has no wheel for this machine: its adapter was not tried for real")


def split_workers(nodes: Sequence[dict[str, Any]]) -> list[str]:
    """Answer the words of a command line that name prefill and decode nodes."""
    words: list[str] = []
    for node in nodes:
        words += [f"--{node['role']}", node["url"]]
        words += [str(node["bootstrap_port"])] if node["bootstrap_port"] else []
    return words


def split_arguments(kind: str, nodes: Sequence[dict[str, Any]]) -> list[str]:
    """Answer the words that start a split router with these nodes."""
    return [SPLIT_FLAG.get(kind, "--pd-disaggregation"), *split_workers(nodes)]


@contextmanager
def running(kind: str, port: int, arguments: Sequence[str], log: Path) -> Iterator[str]:
    """Run a router until the block ends; answers its address once it is ready."""
    _, words = LAUNCH[kind]
    command = [
        *(sys.executable, "-m", *words, "--host", "127.0.0.1", "--port", str(port)),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(port + 1)),
        *("--health-check-interval-secs", "1", "--worker-startup-check-interval", "1"),
        *("--policy", "round_robin", *arguments),
    ]
    with log.open("ab") as sink:
        process = subprocess.Popen(  # noqa: S603 - a wheel of our own lock
            command, stdout=sink, stderr=sink, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _await_ready(url, process, log)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)


def _await_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/readiness", timeout=2) as reply:  # noqa: S310
                if reply.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"the router did not start: {log.read_text(errors='replace')[-2000:]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallEngine:
    """A unified engine that answers health, models and completions."""

    url: str


class _Answers(BaseHTTPRequestHandler):
    """What a unified engine answers as far as a router asks."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send({"object": "list", "data": [{"id": _MODEL, "object": "model"}]})
        else:
            self._send({"status": "ok"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        port = self.connection.getsockname()[1]
        self._send({"object": "text_completion", "choices": [{"index": 0, "text": f"at {port}"}]})

    def _send(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@contextmanager
def small_engine(port: int) -> Iterator[SmallEngine]:
    """Serve a small engine until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Answers)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield SmallEngine(url=f"http://127.0.0.1:{port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
