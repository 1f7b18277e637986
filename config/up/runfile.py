"""The record of what runs: for other verbs, for tests, and for the next start after a crash."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from config.up.datadir import DataFolder, read_object, write_private
from config.up.sockets import drop_socket_folder


def write_run(
    folder: DataFolder,
    *,
    url: str,
    sockets: Path,
    parts: Mapping[str, str],
    pids: Mapping[str, int],
) -> None:
    """Record what runs. Shape of ``parts``: addresses without passwords. Raises OSError."""
    record = {
        "pid": os.getpid(),
        "url": url,
        "sockets": str(sockets),
        "parts": dict(parts),
        "processes": {name: {"pid": pid, "started": _started(pid)} for name, pid in pids.items()},
    }
    write_private(folder.run_file, json.dumps(record, indent=1) + "\n")


def is_running(folder: DataFolder) -> bool:
    """Tell whether the `up` that wrote the record still lives."""
    pid = read_object(folder.run_file).get("pid")
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def clear_last_run(folder: DataFolder) -> None:
    """End what a killed `up` may have left, PostgreSQL excepted. Raises OSError.

    Each child dies with its parent by the kernel's word; this is for systems without that.
    """
    record = read_object(folder.run_file)
    processes = record.get("processes")
    for name, found in processes.items() if isinstance(processes, dict) else ():
        pid, started = found.get("pid"), found.get("started")
        # The start time tells the process from another one that has its number by now.
        if name != "postgres" and isinstance(pid, int) and started and _started(pid) == started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
    if isinstance(sockets := record.get("sockets"), str):
        drop_socket_folder(Path(sockets))
    folder.run_file.unlink(missing_ok=True)


def _started(pid: int) -> str:
    """Answer when a process started, in the kernel's ticks; "" where that cannot be read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name before the last bracket may hold anything. Source: proc(5), field 22.
    return stat.rpartition(")")[2].split()[19]
