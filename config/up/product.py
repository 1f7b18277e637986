"""The product's own processes: manage commands, the web process and the worker."""

from __future__ import annotations

import hashlib
import http.client
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.exits import ToolError
from config.up.datadir import DataFolder, write_private
from config.up.ports import LOOPBACK
from config.up.processes import Service, Supervisor

ROOT = Path(__file__).resolve().parents[2]
COMMAND_WITHIN_S = 300.0
HEALTH_WITHIN_S = 60.0
#: An event stream left open would hold the exit for ever. Source: measured with uvicorn 0.54.
GRACEFUL_S = 3
WORKER_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """How the product runs on one data folder."""

    folder: DataFolder
    port: int
    env: Mapping[str, str]
    #: What `migrate` sees besides: the role that owns the schema.
    owner_env: Mapping[str, str]

    @property
    def url(self) -> str:
        """The web pages' address."""
        return f"http://{LOOPBACK}:{self.port}"

    def migrate(self, supervisor: Supervisor) -> None:
        """Bring the schema up to date. Raises ToolError."""
        self._manage(supervisor, "migrate", "--no-input", "-v", "0", env=self.owner_env)

    def bootstrap(self, supervisor: Supervisor) -> None:
        """Make the first accounts and register the drill. Raises ToolError."""
        self._manage(supervisor, "bootstrap", "--data-dir", str(self.folder.path))

    def collect_static(self, supervisor: Supervisor) -> None:
        """Collect static files if any has changed. Raises ToolError, OSError."""
        stamp = self.folder.path / "static-stamp"
        wanted = static_fingerprint(ROOT)
        try:
            if self.folder.static.is_dir() and stamp.read_text(encoding="ascii") == wanted:
                return
        except FileNotFoundError:
            # The first start.
            supervisor.say("collecting static files")
        stamp.unlink(missing_ok=True)
        self._manage(supervisor, "collectstatic", "--no-input", "--clear", "-v", "0")
        write_private(stamp, wanted)

    def start(self, supervisor: Supervisor) -> None:
        """Start the web process and the worker side by side. Raises OSError."""
        supervisor.start(self.web())
        supervisor.start(self.worker())

    def web(self) -> Service:
        """Answer how to run the web process."""
        options = ["--host", LOOPBACK, "--port", str(self.port), "--lifespan", "off"]
        options += ["--timeout-graceful-shutdown", str(GRACEFUL_S), "--no-server-header"]
        options += ["--no-access-log"]
        return Service(
            name="web",
            argv=(sys.executable, "-m", "uvicorn", "config.asgi:application", *options),
            env=self.env,
            log=self.folder.logs / "web.log",
            stop_within_s=GRACEFUL_S + 1.0,
            rank=3,
        )

    def worker(self) -> Service:
        """Answer how to run the worker."""
        options = ["--pool", "threads", "--concurrency", str(WORKER_THREADS)]
        # One worker alone has nobody to compare clocks and news with.
        options += ["--without-mingle", "--without-gossip", "--loglevel", "INFO"]
        return Service(
            name="worker",
            argv=(sys.executable, "-m", "celery", "-A", "config.celery", "worker", *options),
            env=self.env,
            log=self.folder.logs / "worker.log",
            # It ends what it is at; what overruns is taken up from its lease at the next start.
            stop_signal=signal.SIGTERM,
            rank=3,
        )

    def wait_healthy(self, supervisor: Supervisor) -> None:
        """Wait until all parts answer. Raises ToolError, which names the part that does not."""
        last = "no answer"

        def is_healthy() -> bool:
            nonlocal last
            status, last = ask_health(self.port)
            return status == http.HTTPStatus.OK

        try:
            supervisor.wait_ready("web", is_healthy, within_s=HEALTH_WITHIN_S)
        except ToolError as exc:
            raise ToolError(f"{exc}; /healthz last said: {last}") from exc

    def _manage(
        self, supervisor: Supervisor, *words: str, env: Mapping[str, str] | None = None
    ) -> None:
        log = self.folder.logs / f"{words[0]}.log"
        command = Service(
            name=words[0],
            argv=(sys.executable, str(ROOT / "manage.py"), *words),
            env={**self.env, **(env or {})},
            log=log,
        )
        supervisor.run(command, within_s=COMMAND_WITHIN_S)


def ask_health(port: int) -> tuple[int, str]:
    """Answer status and text of /healthz; status 0 where nothing answers."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, answer.read(2000).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        return 0, "no answer"
    finally:
        connection.close()


def static_fingerprint(root: Path) -> str:
    """Answer a digest of all that decides what is collected: own files, packages, settings."""
    digest = hashlib.sha256()
    for name in ("requirements.lock", "config/settings.py", "common/finders.py"):
        path = root / name
        digest.update(path.read_bytes() if path.is_file() else b"")
    for path in sorted((root / "static").rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
