"""A throw-away database and broker for tests and checks."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from config.up import keys
from config.up.account import database_account
from config.up.datadir import open_folder
from config.up.home import settle
from config.up.processes import Supervisor
from config.up.sockets import drop_socket_folder, make_socket_folder
from config.up.store import Store, make_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Addresses of the throw-away servers; they hold made-up passwords."""

    #: Owns the schema and may make the test database.
    owner_url: str
    app_url: str
    broker_url: str
    data_dir: Path
    secret_key_file: Path
    sealing_key_file: Path

    def environment(self) -> dict[str, str]:
        """Answer the variables that point the settings to these servers."""
        return {
            "DATABASE_URL": self.owner_url,
            "MIGRATION_DATABASE_URL": self.owner_url,
            "BROKER_URL": self.broker_url,
            "PAGEWARDEN_DATA": str(self.data_dir),
            "PAGEWARDEN_SECRET_KEY_FILE": str(self.secret_key_file),
            "PAGEWARDEN_SEALING_KEY_FILE": str(self.sealing_key_file),
            "TZ": "UTC",
        }


@contextlib.contextmanager
def scratch_store(root: Path) -> Iterator[Scratch]:
    """Run a database and a broker in a temporary folder. Raises ToolError, OSError."""
    supervisor = Supervisor(root=root, say=lambda line: print(f"  {line}", file=sys.stderr))
    parent = Path(tempfile.mkdtemp(prefix="pagewarden-scratch-"))
    account = database_account(os.environ)
    if account is not None:
        # So that the cluster lies inside and goes with the folder.
        parent.chmod(0o711)
    sockets = make_socket_folder(os.environ, account)
    homes = [parent]
    try:
        folder = open_folder(parent / "data")
        home = settle(folder, account)
        homes.append(home.path)
        keys.make_keys(folder)
        store = make_store(folder, home, account=account, sockets=sockets, is_durable=False)
        _start(store, supervisor)
        yield Scratch(
            owner_url=store.owner_url(),
            app_url=store.app_url(),
            broker_url=store.broker_url(),
            data_dir=folder.path,
            secret_key_file=keys.key_path(folder, keys.SECRET_KEY),
            sealing_key_file=keys.key_path(folder, keys.SEALING_KEY),
        )
    finally:
        supervisor.stop()
        drop_socket_folder(sockets)
        for place in homes:
            shutil.rmtree(place, ignore_errors=True)


def _start(store: Store, supervisor: Supervisor) -> None:
    store.start_valkey(supervisor)
    store.start_postgres(supervisor)
    store.wait_valkey(supervisor)
    store.wait_postgres(supervisor, owner_may_create=True)
