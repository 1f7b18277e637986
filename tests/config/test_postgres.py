"""The embedded database: nothing acknowledged is lost, and whatever a crash leaves is cleared."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from config.up import keys, roles
from config.up.account import database_account
from config.up.datadir import open_folder
from config.up.home import note_initialised, settle
from config.up.processes import Supervisor
from config.up.sockets import drop_socket_folder, make_socket_folder
from config.up.store import Store, make_store

ROOT = Path(__file__).resolve().parents[2]
#: Longer than the address of a unix socket may be, which is 107 bytes.
LONG_NAME = "a-folder-with-a-long-name-" * 5


@pytest.fixture(scope="module")
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor(root=ROOT, say=lambda _line: None)
    yield supervisor
    supervisor.stop()


@pytest.fixture(scope="module")
def kept_store(supervisor: Supervisor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Answer a database with full durability, its data under a long path."""
    account = database_account(os.environ)
    sockets = make_socket_folder(os.environ, account)
    # pytest's own folder is closed to others, so this is also a start under a closed parent.
    folder = open_folder(tmp_path_factory.mktemp("store") / LONG_NAME)
    home = settle(folder, account)
    keys.make_keys(folder)
    yield make_store(folder, home, account=account, sockets=sockets)
    supervisor.stop()
    drop_socket_folder(sockets)
    shutil.rmtree(home.path)


@pytest.fixture
def store(kept_store: Store, supervisor: Supervisor) -> Store:
    """Answer the database running, whatever the test before did to it, and without a table."""
    if "postgres" not in supervisor.children:
        kept_store.start_postgres(supervisor)
    kept_store.wait_postgres(supervisor)
    with psycopg.connect(kept_store.owner_url()) as connection:
        connection.execute("DROP TABLE IF EXISTS note")
    return kept_store


def restart(store: Store, supervisor: Supervisor) -> None:
    store.start_postgres(supervisor)
    store.wait_postgres(supervisor)


def run_broker(store: Store, supervisor: Supervisor) -> None:
    if "valkey" not in supervisor.children:
        store.start_valkey(supervisor)
    store.wait_valkey(supervisor)


def kill_whole_server(supervisor: Supervisor) -> None:
    """Kill the server and all its processes, as a power cut does to them."""
    pid = supervisor.pids()["postgres"]
    # Not through the supervisor: it would ask the server to end first.
    os.killpg(pid, signal.SIGKILL)
    supervisor.children.pop("postgres").process.wait()


def write_until_killed(url: str, supervisor: Supervisor) -> int:
    """Commit rows one by one, kill the server in the middle; answer the last acknowledged one."""
    acknowledged = 0
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            while True:
                connection.execute("INSERT INTO note VALUES (%s)", [acknowledged + 1])
                acknowledged += 1
                if acknowledged == 200:
                    os.kill(supervisor.pids()["postgres"], signal.SIGKILL)
                    os.killpg(supervisor.pids()["postgres"], signal.SIGKILL)
        except psycopg.Error:
            return acknowledged


def test_no_acknowledged_row_is_lost_by_a_kill(store: Store, supervisor: Supervisor) -> None:
    with psycopg.connect(store.owner_url()) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        connection.execute("CREATE TABLE note (number bigint PRIMARY KEY)")
    acknowledged = write_until_killed(store.app_url(), supervisor)
    assert acknowledged >= 200
    supervisor.children.pop("postgres").process.wait()
    restart(store, supervisor)
    with psycopg.connect(store.app_url()) as connection:
        numbers = [row[0] for row in connection.execute("SELECT number FROM note ORDER BY 1")]
    # One more may have been written and not acknowledged; a gap would be a loss.
    assert numbers[:acknowledged] == list(range(1, acknowledged + 1))
    assert len(numbers) <= acknowledged + 1


def test_a_killed_server_comes_back_under_the_supervisor(
    store: Store, supervisor: Supervisor
) -> None:
    first = supervisor.pids()["postgres"]
    os.kill(first, signal.SIGKILL)
    until_s = time.monotonic() + 20
    while supervisor.pids().get("postgres", first) == first:
        assert time.monotonic() < until_s
        supervisor.check()
        time.sleep(0.02)
    store.wait_postgres(supervisor)


def test_a_pid_that_another_program_has_by_now_does_not_stop_the_start(
    store: Store, supervisor: Supervisor
) -> None:
    kill_whole_server(supervisor)
    pid_file = store.postgres.data / "postmaster.pid"
    lines = pid_file.read_text(encoding="ascii").split("\n")
    # Our own number: a living process that is no database.
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]), encoding="ascii")
    restart(store, supervisor)


def test_a_server_that_outlived_its_launcher_is_ended_first(
    store: Store, supervisor: Supervisor
) -> None:
    orphan = supervisor.children.pop("postgres").process
    store.postgres.clear_leftovers()
    # It is our child here, so its end can be read: it was asked, not killed.
    assert orphan.wait(10) == 0
    restart(store, supervisor)


def test_the_application_may_write_rows_and_no_more(store: Store) -> None:
    with psycopg.connect(store.owner_url()) as connection:
        connection.execute("CREATE TABLE note (number bigint PRIMARY KEY)")
    with psycopg.connect(store.app_url(), autocommit=True) as connection:
        connection.execute("INSERT INTO note VALUES (1)")
        connection.execute("UPDATE note SET number = 2")
        connection.execute("DELETE FROM note")
        for refused in (
            "TRUNCATE note",
            "DROP TABLE note",
            "CREATE TABLE other (number bigint)",
            "CREATE TEMPORARY TABLE other (number bigint)",
            "ALTER TABLE note DISABLE TRIGGER ALL",
            "CREATE DATABASE other",
            "CREATE ROLE other",
            f"SET ROLE {roles.OWNER}",
            "COPY (SELECT 1) TO '/dev/null'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused.encode())


def test_nobody_comes_in_without_a_password(store: Store) -> None:
    for role in (roles.APP, roles.OWNER, "postgres"):
        url = store.postgres.url(role=role, password="wrong", database=roles.DATABASE)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(url)


def test_no_password_stands_among_the_arguments_or_in_the_logs(
    store: Store, supervisor: Supervisor
) -> None:
    run_broker(store, supervisor)
    secret = [keys.read_key(store.folder, name).encode() for name in keys.ALL]
    seen = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in supervisor.pids().values()]
    seen += [log.read_bytes() for log in store.folder.logs.iterdir()]
    assert len(seen) >= 4
    assert not [text for text in seen for key in secret if key in text]


def test_the_broker_refuses_a_wrong_password(store: Store, supervisor: Supervisor) -> None:
    run_broker(store, supervisor)
    assert not store.valkey.answers("wrong")


def test_a_failed_first_start_leaves_no_half_database(
    store: Store, supervisor: Supervisor, tmp_path: Path
) -> None:
    data = store.postgres.data.with_name("second")
    broken = replace(store.postgres.programs, postgres_root=tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "initdb"
    program.write_text("#!/bin/sh\necho 'FATAL: No space left on device' >&2; exit 1\n")
    program.chmod(0o755)
    postgres = replace(store.postgres, programs=broken, data=data, account=None)
    with pytest.raises(Exception, match="No space left on device") as caught:
        postgres.initialise(supervisor, admin_password="secret")
    assert "\n" not in str(caught.value)
    assert not data.exists()
    assert not list(data.parent.glob("second*"))


def test_first_use_is_recorded_only_once_the_database_stands(store: Store) -> None:
    home = settle(store.folder, store.postgres.account)
    assert home.is_initialised
    assert note_initialised(store.folder, home).cluster.is_dir()
