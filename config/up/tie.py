"""Ties a database that lives outside to its data folder: found again, never mixed up, deleted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

from common.exits import ToolError
from config.up.datadir import MARKER, DataFolder, read_object, write_private

#: In the home; its second name, in the data folder, goes when that folder is deleted.
TIE = "belongs-to.json"
LINK = "database-tie.json"
PREFIX = "pagewarden-"


def tie_home(home: Path, folder: DataFolder) -> None:
    """Write in the home whose it is. Raises OSError."""
    link = folder.path / LINK
    link.unlink(missing_ok=True)
    tie = home / TIE
    content = {"data_dir": str(folder.path), "id": folder.folder_id, "is_linked": True}
    write_private(tie, json.dumps(content) + "\n")
    try:
        # One file with two names: a moved data folder keeps its name of it, a deleted one does
        # not, and this is all that tells the two apart.
        link.hardlink_to(tie)
    except OSError:
        # On another file system. Then nothing can tell, and nothing is deleted.
        write_private(tie, json.dumps(content | {"is_linked": False}) + "\n")


def check_tie(home: Path, folder: DataFolder) -> None:
    """Refuse a home of another data folder, take along one that has moved. Raises ToolError."""
    tie = read_object(home / TIE)
    if tie.get("id") != folder.folder_id:
        raise ToolError(f"{home} holds the database of another folder than {folder.path}")
    former = Path(str(tie.get("data_dir")))
    if former == folder.path:
        return
    if read_object(former / MARKER).get("id") == folder.folder_id and not _is_same(former, folder):
        raise ToolError(
            f"{folder.path} is a copy of {former}, to which the database in {home} belongs; "
            "dump and load the database to have a second one",
        )
    tie_home(home, folder)


def drop_abandoned(parents: tuple[Path, ...], folder: DataFolder) -> list[Path]:
    """Delete what a deleted data folder at this very path left behind; answer which homes."""
    homes = [home for parent in parents for home in parent.glob(f"{PREFIX}*")]
    dropped = [home for home in homes if _is_abandoned(home, folder)]
    for home in dropped:
        shutil.rmtree(home, ignore_errors=True)
    return dropped


def _is_abandoned(home: Path, folder: DataFolder) -> bool:
    with contextlib.suppress(OSError):
        found = (home / TIE).lstat()
        tie = read_object(home / TIE)
        is_ours = not home.is_symlink() and found.st_uid == os.geteuid()
        is_same_path = tie.get("data_dir") == str(folder.path)
        is_unlinked = tie.get("is_linked") is True and found.st_nlink == 1
        return is_ours and is_same_path and is_unlinked and tie.get("id") != folder.folder_id
    return False


def _is_same(former: Path, folder: DataFolder) -> bool:
    """Tell whether both paths lead to one folder, as through a symbolic link."""
    return former.samefile(folder.path)
