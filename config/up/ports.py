"""Which TCP ports of the loopback are free."""

from __future__ import annotations

import contextlib
import errno
import socket

from common.exits import ToolError

LOOPBACK = "127.0.0.1"
#: Ports above belong to outgoing connections. Source: Linux' ip_local_port_range.
FIRST_EPHEMERAL = 32768


def port_is_free(port: int) -> bool:
    """Tell whether a server could listen on the port now. Raises OSError for other reasons."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do, so that connections that are just closing are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            # Bound alone proves little: another server may share the address until both listen.
            probe.listen(1)
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def require_port(port: int) -> None:
    """Refuse a port that cannot be had. Raises ToolError."""
    try:
        is_free = port_is_free(port)
    except OSError as exc:
        raise ToolError(f"port {port} cannot be used: {exc.strerror}; choose another") from exc
    if not is_free:
        raise ToolError(f"port {port} is taken; stop what uses it or choose another with --port")


def free_range(wanted: int, *, size: int) -> int:
    """Answer the first port of a free range: the wanted one, or the next. Raises ToolError."""
    for base in range(wanted, FIRST_EPHEMERAL - size, size):
        with contextlib.suppress(OSError):
            if all(port_is_free(port) for port in range(base, base + size)):
                return base
    raise ToolError(f"no {size} free ports in a row from {wanted} on")
