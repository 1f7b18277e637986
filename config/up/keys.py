"""Keys and passwords of the embedded default: one file each, outside the database."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

from common.exits import ToolError
from config.up.datadir import DataFolder, read_object, write_private
from probes.proof_bundle import new_keys

SECRET_KEY = "secret-key"  # noqa: S105  # a file's name
SEALING_KEY = "sealing-key"
#: Signs the proofs of audits; what checks them needs only its public half.
PROOF_KEY = "proof-key"
ADMIN_PASSWORD = "database-admin"  # noqa: S105  # a file's name
OWNER_PASSWORD = "database-owner"  # noqa: S105  # a file's name
APP_PASSWORD = "database-app"  # noqa: S105  # a file's name
BROKER_PASSWORD = "broker"  # noqa: S105  # a file's name
#: Which keys were made, so that a lost one is never taken for a new one.
MADE = "made.json"

ALL = (
    SECRET_KEY,
    SEALING_KEY,
    PROOF_KEY,
    ADMIN_PASSWORD,
    OWNER_PASSWORD,
    APP_PASSWORD,
    BROKER_PASSWORD,
)


def fresh_key() -> str:
    """Answer a new random key. Shape: 32 bytes in base64, 44 characters."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


def _fresh_text(name: str) -> str:
    """Answer what a new key file holds: PEM for the key that signs, else random bytes."""
    if name == PROOF_KEY:
        private, _ = new_keys()
        return private
    return fresh_key() + "\n"


def make_keys(folder: DataFolder) -> None:
    """Make the keys that were never made. Raises ToolError when one was lost."""
    record = folder.keys / MADE
    known = read_object(record).get("made")
    made = set(known if isinstance(known, list) else ())
    for name in ALL:
        path = key_path(folder, name)
        if path.exists():
            continue
        # A new sealing key could open nothing of what the database holds, and a new password
        # would not be the database's: say so now rather than later and darkly.
        if name in made:
            raise ToolError(f"the key file {path} is missing; restore it from a backup")
        write_private(path, _fresh_text(name))
    if made != set(ALL):
        write_private(record, json.dumps({"made": list(ALL)}) + "\n")


def key_path(folder: DataFolder, name: str) -> Path:
    """Answer where a key stands."""
    return folder.keys / name


def read_key(folder: DataFolder, name: str) -> str:
    """Answer a key's text. Raises ToolError when it cannot be read."""
    path = key_path(folder, name)
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as exc:
        raise ToolError(f"the key file {path} cannot be read; run as its owner") from exc
    if not text:
        raise ToolError(f"the key file {path} is empty; restore it from a backup")
    return text
