"""A short folder for unix sockets, whose addresses hold 107 bytes at most."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from common.exits import ToolError
from config.up.account import Account, give

PREFIX = "pagewarden-"
#: Source: unix(7), sun_path less its closing zero.
LONGEST_ADDRESS_BYTES = 107
#: The longest name of ours in such a folder.
LONGEST_NAME = ".s.PGSQL.5432.lock"


def make_socket_folder(environ: Mapping[str, str], account: Account | None) -> Path:
    """Make a folder that only we and the database user enter. Raises ToolError."""
    for parent in _parents(environ):
        folder = _try_make(parent, account)
        if folder is not None:
            return folder
    raise ToolError("no folder for sockets can be made under /run or /tmp")


def drop_socket_folder(folder: Path) -> None:
    """Delete a folder made here; anything else is left alone. Raises nothing."""
    # The name may come from a file, so what it names is looked at before it is deleted.
    is_ours = folder.name.startswith(PREFIX) and folder.is_absolute() and not folder.is_symlink()
    if is_ours and folder.is_dir() and not (folder / "cluster").exists():
        shutil.rmtree(folder, ignore_errors=True)


def _parents(environ: Mapping[str, str]) -> list[Path]:
    own = environ.get("XDG_RUNTIME_DIR", "")
    parents = [Path("/run")] if os.geteuid() == 0 else [Path(own)] if own.startswith("/") else []
    # Not TMPDIR: it may be long, and that is what this folder is there to avoid.
    return [*parents, Path("/tmp")]  # noqa: S108  # mkdtemp makes a closed folder of a new name


def _try_make(parent: Path, account: Account | None) -> Path | None:
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    except OSError:
        return None
    if len(os.fsencode(folder / LONGEST_NAME)) > LONGEST_ADDRESS_BYTES:
        folder.rmdir()
        return None
    give(folder, account)
    return folder
