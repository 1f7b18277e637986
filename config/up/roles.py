"""The database's roles: one owns the schema, the application's own may do little."""

from __future__ import annotations

import psycopg
from psycopg import sql

DATABASE = "pagewarden"
OWNER = "pagewarden_owner"
APP = "pagewarden_app"

#: The application reads and writes rows; it makes no tables, empties none and sets no triggers.
#: What is append-only takes more away in its migration.
GRANTS = (
    "REVOKE ALL ON DATABASE {database} FROM PUBLIC",
    "GRANT CONNECT ON DATABASE {database} TO {app}",
    "REVOKE ALL ON SCHEMA public FROM PUBLIC",
    "GRANT USAGE ON SCHEMA public TO {app}",
    (
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public"
        " GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {app}"
    ),
    (
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public"
        " GRANT USAGE, SELECT ON SEQUENCES TO {app}"
    ),
)


def ensure_roles(
    admin_url: str, *, owner_password: str, app_password: str, owner_may_create: bool = False
) -> None:
    """Make roles and database where they are missing. Raises psycopg.Error."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        for role, password in ((OWNER, owner_password), (APP, app_password)):
            _ensure_role(connection, role, password)
        if owner_may_create:
            # For tests, whose runner makes a database of its own.
            _execute(connection, "ALTER ROLE {owner} CREATEDB")
        _ensure_database(connection)


def grant_use(database_url: str) -> None:
    """Give the application what it needs in this database. Raises psycopg.Error."""
    with psycopg.connect(database_url) as connection:
        for grant in GRANTS:
            _execute(connection, grant)


def _ensure_role(connection: psycopg.Connection, role: str, password: str) -> None:
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        return
    # The verifier goes over the wire and into a log, if any; the password itself does not.
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    )
    connection.execute(
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
            sql.Identifier(role), sql.Literal(verifier.decode())
        )
    )


def _ensure_database(connection: psycopg.Connection) -> None:
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
    if not found.fetchone():
        _execute(connection, "CREATE DATABASE {database} OWNER {owner}")


def _execute(connection: psycopg.Connection, statement: str) -> None:
    connection.execute(
        sql.SQL(statement).format(
            database=sql.Identifier(DATABASE),
            owner=sql.Identifier(OWNER),
            app=sql.Identifier(APP),
        )
    )
