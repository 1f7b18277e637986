"""Points other verbs to what a running `up` serves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from config.up import keys, roles
from config.up.datadir import MARKER, DataFolder, default_path, read_object
from config.up.postgres import socket_url
from config.up.runfile import is_running
from config.up.valkey import socket_broker_url


def running_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Answer the variables that a verb lacks to use the `up` that runs; none when none runs.

    Raises ToolError when its keys cannot be read.
    """
    path = default_path(environ)
    folder = DataFolder(path=path, folder_id=str(read_object(path / MARKER).get("id", "")))
    missing = _key_files(folder)
    record = read_object(folder.run_file)
    if record and is_running(folder):
        missing |= _addresses(folder, Path(str(record["sockets"])), record.get("parts"))
    return {name: value for name, value in missing.items() if not environ.get(name)}


def _key_files(folder: DataFolder) -> dict[str, str]:
    files = {
        "PAGEWARDEN_SECRET_KEY_FILE": keys.key_path(folder, keys.SECRET_KEY),
        "PAGEWARDEN_SEALING_KEY_FILE": keys.key_path(folder, keys.SEALING_KEY),
        "PAGEWARDEN_PROOF_KEY_FILE": keys.key_path(folder, keys.PROOF_KEY),
    }
    found = {name: str(file) for name, file in files.items() if file.is_file()}
    return found | ({"PAGEWARDEN_DATA": str(folder.path)} if found else {})


def _addresses(folder: DataFolder, sockets: Path, parts: object) -> dict[str, str]:
    # Parts that `up` did not start itself are named by the same variables that it was given.
    embedded = parts if isinstance(parts, dict) else {}
    found = {}
    if "postgres" in embedded:
        for name, role, key in (
            ("DATABASE_URL", roles.APP, keys.APP_PASSWORD),
            ("MIGRATION_DATABASE_URL", roles.OWNER, keys.OWNER_PASSWORD),
        ):
            password = keys.read_key(folder, key)
            found[name] = socket_url(sockets, role=role, password=password, database=roles.DATABASE)
    if "valkey" in embedded:
        found["BROKER_URL"] = socket_broker_url(
            sockets, keys.read_key(folder, keys.BROKER_PASSWORD)
        )
    return found
