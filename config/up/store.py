"""Database and broker of one start: the embedded ones, or those that the environment names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psycopg

from common.exits import ToolError
from config.up import keys, roles
from config.up.account import Account
from config.up.datadir import DataFolder
from config.up.home import Home, make_owned, note_initialised
from config.up.postgres import ADMIN, Postgres
from config.up.processes import Supervisor
from config.up.programs import packaged_programs, runnable_programs
from config.up.valkey import Valkey

#: After a crash PostgreSQL replays its log first; a large one takes its time.
POSTGRES_WITHIN_S = 60.0
VALKEY_WITHIN_S = 20.0
BARE_ENV = {"LC_ALL": "C.UTF-8", "PATH": os.defpath, "TZ": "UTC"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The two embedded servers of one data folder."""

    postgres: Postgres
    valkey: Valkey
    folder: DataFolder
    home: Home

    def app_url(self) -> str:
        """Answer the application's address of the database; it holds the password."""
        return self._url(roles.APP, keys.APP_PASSWORD)

    def owner_url(self) -> str:
        """Answer the schema owner's address of the database; it holds the password."""
        return self._url(roles.OWNER, keys.OWNER_PASSWORD)

    def broker_url(self) -> str:
        """Answer the broker's address; it holds the password."""
        return self.valkey.url(keys.read_key(self.folder, keys.BROKER_PASSWORD))

    def start_postgres(self, supervisor: Supervisor) -> None:
        """Make the cluster if there is none and start the server. Raises ToolError, OSError."""
        admin_password = keys.read_key(self.folder, keys.ADMIN_PASSWORD)
        if self.postgres.data.is_dir():
            self.postgres.clear_leftovers()
        else:
            supervisor.say("making the database (first start)")
            self.postgres.initialise(supervisor, admin_password=admin_password)
        note_initialised(self.folder, self.home)
        supervisor.start(self.postgres.service(BARE_ENV))

    def wait_postgres(self, supervisor: Supervisor, *, owner_may_create: bool = False) -> None:
        """Wait for the database and see to its roles. Raises ToolError."""
        admin_password = keys.read_key(self.folder, keys.ADMIN_PASSWORD)
        supervisor.wait_ready(
            "postgres",
            lambda: self.postgres.answers(admin_password=admin_password),
            within_s=POSTGRES_WITHIN_S,
        )
        self._ensure_roles(admin_password, owner_may_create=owner_may_create)

    def start_valkey(self, supervisor: Supervisor) -> None:
        """Start the broker. Raises OSError."""
        self.valkey.write_configuration(keys.read_key(self.folder, keys.BROKER_PASSWORD))
        supervisor.start(self.valkey.service(BARE_ENV))

    def wait_valkey(self, supervisor: Supervisor) -> None:
        """Wait for the broker. Raises ToolError."""
        password = keys.read_key(self.folder, keys.BROKER_PASSWORD)
        supervisor.wait_ready(
            "valkey", lambda: self.valkey.answers(password), within_s=VALKEY_WITHIN_S
        )

    def _ensure_roles(self, admin_password: str, *, owner_may_create: bool) -> None:
        def admin_url(database: str) -> str:
            return self.postgres.url(role=ADMIN, password=admin_password, database=database)

        try:
            roles.ensure_roles(
                admin_url(ADMIN),
                owner_password=keys.read_key(self.folder, keys.OWNER_PASSWORD),
                app_password=keys.read_key(self.folder, keys.APP_PASSWORD),
                owner_may_create=owner_may_create,
            )
            roles.grant_use(admin_url(roles.DATABASE))
        except psycopg.Error as exc:
            reason = str(exc).partition("\n")[0]
            raise ToolError(f"the database's roles cannot be made: {reason}") from exc

    def _url(self, role: str, key: str) -> str:
        password = keys.read_key(self.folder, key)
        return self.postgres.url(role=role, password=password, database=roles.DATABASE)


def make_store(
    folder: DataFolder,
    home: Home,
    *,
    account: Account | None,
    sockets: Path,
    is_durable: bool = True,
) -> Store:
    """Answer the servers of a data folder, ready to be started. Raises ToolError, OSError."""
    make_owned(home.broker, account)
    programs = runnable_programs(packaged_programs(home.cluster), account=account, home=home.path)
    postgres = Postgres(
        programs=programs,
        data=home.cluster,
        sockets=sockets,
        logs=folder.logs,
        account=account,
        is_durable=is_durable,
    )
    valkey = Valkey(
        program=programs.valkey,
        folder=home.broker,
        sockets=sockets,
        logs=folder.logs,
        account=account,
    )
    return Store(postgres=postgres, valkey=valkey, folder=folder, home=home)
