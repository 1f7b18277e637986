"""Where the database cluster lives, and the pointer that ties it to its data folder."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from common.exits import ToolError
from config.up.account import Account, can_enter, give
from config.up.datadir import DataFolder, read_object, write_private
from config.up.tie import PREFIX, check_tie, drop_abandoned, tie_home

INSIDE = "database"
#: Folders that an unprivileged user can reach and that outlast a restart, best first.
REACHABLE = (Path("/var/lib"), Path("/var/tmp"))  # noqa: S108  # mkdtemp makes a closed one there


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The folder that holds the cluster and the broker's file."""

    path: Path
    #: Whether a database was once made here; then a missing one is a loss, not a beginning.
    is_initialised: bool

    @property
    def cluster(self) -> Path:
        """PostgreSQL's own data directory."""
        return self.path / "cluster"

    @property
    def broker(self) -> Path:
        """Valkey's folder."""
        return self.path / "broker"

    def is_outside(self, folder: DataFolder) -> bool:
        """Tell whether it lies elsewhere than in its data folder."""
        return self.path.parent != folder.path


def settle(folder: DataFolder, account: Account | None) -> Home:
    """Answer the home of this data folder's database, made if there is none. Raises ToolError."""
    pointer = read_object(folder.pointer_file)
    if "home" not in pointer and folder.pointer_file.exists():
        raise ToolError(f"{folder.pointer_file} cannot be read; restore it from a backup")
    if not pointer:
        drop_abandoned(REACHABLE, folder)
        path = _make(folder, account)
        _point(folder, path, is_initialised=False)
        return Home(path=path, is_initialised=False)
    path = folder.path / str(pointer["home"])
    home = Home(path=path, is_initialised=pointer.get("is_initialised") is True)
    _refuse_lost(folder, home)
    if home.is_outside(folder):
        check_tie(path, folder)
    elif account is not None:
        _reopen(folder, account)
    return home


def note_initialised(folder: DataFolder, home: Home) -> Home:
    """Record that the database stands, so that its absence is never taken for a first start."""
    _point(folder, home.path, is_initialised=True)
    return Home(path=home.path, is_initialised=True)


def _make(folder: DataFolder, account: Account | None) -> Path:
    """Make the home inside the data folder, or outside where its user can reach it."""
    inside = folder.path / INSIDE
    if account is None:
        inside.mkdir(mode=0o700, exist_ok=True)
        return inside
    # Others may then pass through the data folder to names they know, and read nothing:
    # all that stands in it is closed to them.
    folder.path.chmod(0o711)
    if can_enter(account, folder.path):
        inside.mkdir(mode=0o711, exist_ok=True)
        inside.chmod(0o711)
        return inside
    folder.path.chmod(0o700)
    return _make_outside(folder, account)


def _make_outside(folder: DataFolder, account: Account) -> Path:
    for parent in REACHABLE:
        try:
            home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            home.chmod(0o711)
            tie_home(home, folder)
        except OSError:
            continue
        if can_enter(account, home):
            return home
        shutil.rmtree(home, ignore_errors=True)
    raise ToolError(
        f"user {account.name!r} can reach neither {folder.path} nor a folder of its own under "
        + " or ".join(str(parent) for parent in REACHABLE),
    )


def _reopen(folder: DataFolder, account: Account) -> None:
    """See that the way to a home inside is open, also after a move. Raises ToolError."""
    folder.path.chmod(0o711)
    if not can_enter(account, folder.path / INSIDE):
        raise ToolError(
            f"user {account.name!r}, who runs the database, cannot reach {folder.path}; "
            "move it back, or let others pass through its parent folders",
        )


def make_owned(path: Path, account: Account | None) -> None:
    """Make a closed folder that the database user owns. Raises OSError."""
    path.mkdir(mode=0o700, exist_ok=True)
    give(path, account)


def _point(folder: DataFolder, home: Path, *, is_initialised: bool) -> None:
    # A home inside is named relatively, so that the whole data folder can be moved.
    name = home.name if home.parent == folder.path else str(home)
    content = {"home": name, "is_initialised": is_initialised}
    write_private(folder.pointer_file, json.dumps(content) + "\n")


def _refuse_lost(folder: DataFolder, home: Home) -> None:
    """Refuse to begin anew where a database is missing. Raises ToolError."""
    advice = "restore it from a backup, or delete the data folder to begin anew"
    if not home.path.is_dir() or (home.is_initialised and not home.cluster.is_dir()):
        raise ToolError(f"the database of {folder.path} is gone from {home.path}: {advice}")
