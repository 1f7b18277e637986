"""The embedded PostgreSQL: makes a cluster, says how to run it and whether it answers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

from common.exits import ToolError
from config.up.account import Account, give
from config.up.datadir import write_private
from config.up.processes import Service, Supervisor
from config.up.programs import Programs

ADMIN = "postgres"
#: PostgreSQL names its socket by the port, though no port is opened.
SOCKET_PORT = 5432
INITDB_WITHIN_S = 120.0
#: How long a server that outlived its launcher gets to end in order, then by force.
LEFTOVER_WITHIN_S = 8.0

#: Every local user may reach a socket whose folder he can enter, and other programs run as
#: `nobody` too, so the folder is closed and a password is asked for besides. No peer names: a
#: user id without a name would lock itself out.
ACCESS_RULES = "local all all scram-sha-256\n"

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "60",
    "shared_buffers": "64MB",
    # Three extra processes for reading ahead are not worth their memory on a small database.
    "io_method": "sync",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    # A statement may hold what must not be logged.
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
}
#: For throw-away databases of tests: fast, and gone after a crash.
SCRATCH_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
#: Came with PostgreSQL 18; an older server stops at a setting that it does not know.
SETTINGS_SINCE_18 = frozenset({"io_method"})


def socket_url(sockets: Path, *, role: str, password: str, database: str) -> str:
    """Answer a server's address by its socket folder. It holds the password: never print it."""
    host = quote(str(sockets), safe="")
    return f"postgresql://{role}:{quote(password, safe='')}@{host}:{SOCKET_PORT}/{database}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """One embedded server: its programs, folders and user."""

    programs: Programs
    data: Path
    sockets: Path
    logs: Path
    account: Account | None
    is_durable: bool = True

    def url(self, *, role: str, password: str, database: str) -> str:
        """Answer the address for a role. It holds the password: never print it."""
        return socket_url(self.sockets, role=role, password=password, database=database)

    def service(self, env: dict[str, str]) -> Service:
        """Answer how to run the server."""
        settings = SETTINGS | ({} if self.is_durable else SCRATCH_SETTINGS)
        settings["unix_socket_directories"] = str(self.sockets)
        if self._major() < 18:  # noqa: PLR2004  # see SETTINGS_SINCE_18
            settings = {k: v for k, v in settings.items() if k not in SETTINGS_SINCE_18}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return Service(
            name="postgres",
            argv=(str(self.programs.postgres), "-D", str(self.data), *options),
            env=env,
            log=self.logs / "postgres.log",
            account=self.account,
            # Fast shutdown: it ends sessions and writes a checkpoint.
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
        )

    def initialise(self, supervisor: Supervisor, *, admin_password: str) -> None:
        """Make the cluster, whole or not at all. Raises ToolError, OSError."""
        draft = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        give(draft, self.account)
        password_file = draft.with_name("first-password")
        write_private(password_file, admin_password + "\n")
        give(password_file, self.account)
        log = self.logs / "initdb.log"
        try:
            supervisor.run(
                Service(
                    name="initdb",
                    argv=self._initdb_argv(draft, password_file),
                    env={"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"},
                    log=log,
                    account=self.account,
                ),
                within_s=INITDB_WITHIN_S,
            )
            rules = draft / "pg_hba.conf"
            rules.write_text(ACCESS_RULES, encoding="ascii")
        except ToolError:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        finally:
            password_file.unlink(missing_ok=True)
        draft.rename(self.data)

    def answers(self, *, admin_password: str) -> bool:
        """Tell whether the server takes a connection and a statement."""
        url = self.url(role=ADMIN, password=admin_password, database=ADMIN)
        try:
            with psycopg.connect(url, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def clear_leftovers(self) -> None:
        """End a server that outlived its launcher, and remove a stale pid file. Raises ToolError.

        The data folder's lock is held by now, so whoever serves this cluster is an orphan; and
        a pid that another program has by now would stop the start for ever.
        """
        pid_file = self.data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text(encoding="ascii").split("\n", 1)[0])
        except (OSError, ValueError):
            return
        for ending in (None, signal.SIGINT, signal.SIGQUIT):
            if _wait_gone(pid, self.data, ending):
                pid_file.unlink(missing_ok=True)
                return
        raise ToolError(f"an older database server (pid {pid}) on {self.data} does not end")

    def _initdb_argv(self, draft: Path, password_file: Path) -> tuple[str, ...]:
        locale = ("--locale-provider=builtin", "--locale=C.UTF-8")
        argv = [str(self.programs.initdb), "-D", str(draft), "-U", ADMIN]
        argv += ["--pwfile", str(password_file), "--encoding=UTF8"]
        argv += locale if self._major() >= 17 else ("--locale=C",)  # noqa: PLR2004  # came with 17
        argv += ["--auth-local=scram-sha-256", "--auth-host=reject"]
        if not self.is_durable:
            argv.append("--no-sync")
        return tuple(argv)

    def _major(self) -> int:
        return self.programs.postgres_release


def _wait_gone(pid: int, data: Path, ending: signal.Signals | None) -> bool:
    """Send the signal, if any, and wait until the server has gone; tell whether it has."""
    if ending is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, ending)
    # Without a signal: it may just be ending by the signal of its launcher's death.
    until_s = time.monotonic() + (1.0 if ending is None else LEFTOVER_WITHIN_S / 2)
    while _serves(pid, data):
        if time.monotonic() > until_s:
            return False
        time.sleep(0.05)
    return True


def _serves(pid: int, data: Path) -> bool:
    """Tell whether the process is a server on this cluster."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return Path(os.fsdecode(words[0])).name == "postgres" and os.fsencode(data) in words
