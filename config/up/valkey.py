"""The embedded Valkey, which carries Celery's wake-ups: how to run it, whether it answers."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from config.up.account import Account, give
from config.up.datadir import write_private
from config.up.processes import Service

#: Only ids pass through the broker; what grows beyond this is a fault, and is refused.
CONFIGURATION = """\
port 0
unixsocket "{socket}"
unixsocketperm 700
requirepass "{password}"
dir "{folder}"
appendonly yes
appendfsync everysec
save ""
daemonize no
databases 2
maxmemory 256mb
maxmemory-policy noeviction
"""


SOCKET = "valkey.sock"


def socket_broker_url(sockets: Path, password: str) -> str:
    """Answer a broker's address by its socket folder. It holds the password: never print it."""
    return f"redis+socket://:{quote(password, safe='')}@{sockets / SOCKET}?virtual_host=0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Valkey:
    """One embedded broker: its program, folders and user."""

    program: Path
    folder: Path
    sockets: Path
    logs: Path
    account: Account | None

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.sockets / SOCKET

    def url(self, password: str) -> str:
        """Answer the address for Celery. It holds the password: never print it."""
        return socket_broker_url(self.sockets, password)

    def write_configuration(self, password: str) -> None:
        """Write its configuration: a file, since arguments can be read by everyone.

        Raises OSError.
        """
        path = self.folder / "valkey.conf"
        write_private(
            path,
            CONFIGURATION.format(socket=self.socket, password=password, folder=self.folder),
        )
        give(path, self.account)

    def service(self, env: dict[str, str]) -> Service:
        """Answer how to run the broker."""
        return Service(
            name="valkey",
            argv=(str(self.program), str(self.folder / "valkey.conf")),
            env=env,
            log=self.logs / "valkey.log",
            account=self.account,
            death_signal=signal.SIGTERM,
        )

    def answers(self, password: str) -> bool:
        """Tell whether the broker takes the password and a command."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(2)
                connection.connect(str(self.socket))
                connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2:  # noqa: PLR2004  # one line for each command
                    part = connection.recv(256)
                    if not part:
                        return False
                    answer += part
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"
