"""The operating-system user that runs the database, and what that user can reach."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.exits import ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An unprivileged user; PostgreSQL refuses to run as root."""

    name: str
    uid: int
    gid: int


def database_account(environ: Mapping[str, str]) -> Account | None:
    """Answer the user for the database, or None when it runs as ourselves. Raises ToolError."""
    if os.geteuid() != 0:
        return None
    name = environ.get("PAGEWARDEN_DB_USER", "nobody")
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ToolError(
            f"the database cannot run as root and there is no user {name!r}; "
            "name one in PAGEWARDEN_DB_USER",
        ) from None
    if found.pw_uid == 0:
        raise ToolError("PAGEWARDEN_DB_USER names root; the database needs an unprivileged user")
    return Account(name=found.pw_name, uid=found.pw_uid, gid=found.pw_gid)


def can_enter(account: Account | None, folder: Path) -> bool:
    """Tell whether the user can enter the folder. Tried as that user, not guessed from bits."""
    # Access lists, mount options and security modules decide too, so only trying tells.
    return _as_user(account, 'cd -- "$1"', folder)


def can_run(account: Account | None, program: Path) -> bool:
    """Tell whether the user can run the program, its libraries included."""
    return _as_user(account, '"$1" --version >/dev/null', program)


def can_read(account: Account | None, file: Path) -> bool:
    """Tell whether the user can read the file."""
    return _as_user(account, '[ -r "$1" ]', file)


def give(path: Path, account: Account | None) -> None:
    """Make the user the owner of a file or folder. Raises OSError."""
    if account is not None:
        os.chown(path, account.uid, account.gid)


def _as_user(account: Account | None, test: str, path: Path) -> bool:
    # The shell's own errors are the answer "no", not news.
    argv = ["/bin/sh", "-c", f"{test} 2>/dev/null", "sh", str(path)]
    if account is None:
        return subprocess.run(argv, check=False, cwd="/").returncode == 0  # noqa: S603 - fixed line
    done = subprocess.run(  # noqa: S603 - fixed line
        argv, check=False, cwd="/", user=account.uid, group=account.gid, extra_groups=[]
    )
    return done.returncode == 0
