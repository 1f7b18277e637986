"""The data folder: where it is, what stands in it, and who may use it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.exits import ToolError

LAYOUT = 1
MARKER = "data-folder.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolder:
    """One data folder and the names of what stands in it."""

    path: Path
    #: Tells this folder from another one that once stood at the same path.
    folder_id: str

    @property
    def keys(self) -> Path:
        """Where the keys stand, each in a file of its own."""
        return self.path / "keys"

    @property
    def logs(self) -> Path:
        """Where the children log."""
        return self.path / "logs"

    @property
    def static(self) -> Path:
        """Where the collected static files stand."""
        return self.path / "static"

    @property
    def run_file(self) -> Path:
        """What runs now: process ids, sockets, addresses; no passwords."""
        return self.path / "run.json"

    @property
    def drill_file(self) -> Path:
        """The drill's first line: addresses and the keys of its made-up tenants."""
        return self.path / "drill.json"

    @property
    def pointer_file(self) -> Path:
        """Which folder holds the database of this data folder."""
        return self.path / "database.json"

    @property
    def sign_ins(self) -> Path:
        """The first sign-ins, readable by the owner alone."""
        return self.path / "first-sign-ins.txt"


def default_path(environ: Mapping[str, str]) -> Path:
    """Answer the data folder that applies when no option names one."""
    if named := environ.get("PAGEWARDEN_DATA"):
        return Path(named).expanduser().absolute()
    shared = environ.get("XDG_DATA_HOME", "")
    # The specification of XDG tells to ignore a path that is not absolute.
    base = Path(shared) if shared.startswith("/") else Path.home() / ".local" / "share"
    return base / "pagewarden"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, whole or not at all. Raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_object(path: Path) -> dict[str, object]:
    """Answer the JSON object in a file; an empty one when there is none to read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def open_folder(path: Path) -> DataFolder:
    """Make the data folder or take up the one that is there. Raises ToolError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_foreign(path)
        folder = DataFolder(path=path, folder_id=_folder_id(path))
        for inner in (folder.keys, folder.logs):
            inner.mkdir(mode=0o700, exist_ok=True)
    except OSError as exc:
        raise ToolError(
            f"the data folder {path} cannot be used: {exc.strerror}; "
            "name another with --data-dir or PAGEWARDEN_DATA",
        ) from exc
    return folder


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Hold a folder for this process alone. Raises ToolError when another holds it."""
    # Python's descriptors close on exec, so no child keeps the lock when this process is killed.
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise ToolError(
                f"another `up` (pid {holder}) already runs on {path}; "
                "stop it first, or name another folder with --data-dir",
            ) from exc
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _refuse_foreign(path: Path) -> None:
    """Refuse a folder that holds other people's things. Raises ToolError."""
    # Without this, `--data-dir /tmp` would close /tmp to everyone else.
    marker = path / MARKER
    if not marker.exists():
        if any(path.iterdir()):
            raise ToolError(
                f"{path} is not empty and no Pagewarden data folder; "
                "name an empty or new folder with --data-dir",
            )
        return
    owner = marker.stat().st_uid
    if owner != os.geteuid():
        raise ToolError(f"the data folder {path} belongs to user id {owner}; run as that user")


def _folder_id(path: Path) -> str:
    """Answer the folder's id, given to it once. Raises ToolError, OSError."""
    marker = path / MARKER
    if not marker.exists():
        # Closed to others; `home` opens a way through when the database user needs one. Done
        # once, since a later `up` must not close that way under a running one.
        path.chmod(0o700)
        write_private(marker, json.dumps({"layout": LAYOUT, "id": secrets.token_hex(8)}) + "\n")
    found = read_object(marker)
    if found.get("layout") != LAYOUT or not isinstance(found.get("id"), str):
        raise ToolError(f"{marker} was written by another version of Pagewarden")
    return str(found["id"])
