"""Whether schema and first accounts are as this version leaves them, so that a start may go on."""

from __future__ import annotations

import hashlib
from pathlib import Path

import psycopg

from config.up.datadir import DataFolder, write_private

STAMP = "prepared-stamp"
#: When each migration was applied tells one database from another with the same schema.
APPLIED = "SELECT app, name, applied::text FROM django_migrations ORDER BY id"


def prepared_state(root: Path, folder: DataFolder, *, owner_url: str) -> str:
    """Answer a digest of all that `migrate` and `bootstrap` look at; "" where it is unknown.

    That is the code, the packages, the drill's first line and what the database has applied.
    """
    try:
        with psycopg.connect(owner_url, connect_timeout=5) as connection:
            applied = connection.execute(APPLIED).fetchall()
    except psycopg.Error:
        return ""
    digest = hashlib.sha256(repr(applied).encode())
    for path in (root / "requirements.lock", folder.drill_file, *_code(root)):
        digest.update(f"\0{path}\0".encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


def is_prepared(folder: DataFolder, state: str) -> bool:
    """Tell whether this very state was left by a start that came to its end."""
    try:
        return state != "" and (folder.path / STAMP).read_text(encoding="ascii") == state
    except FileNotFoundError:
        return False


def note_prepared(folder: DataFolder, state: str) -> None:
    """Record the state after `migrate` and `bootstrap`. Raises OSError."""
    write_private(folder.path / STAMP, state)


def _code(root: Path) -> list[Path]:
    """Answer the checkout's own Python files."""
    return sorted(
        path
        for package in root.iterdir()
        if (package / "__init__.py").is_file()
        for path in package.rglob("*.py")
    )
