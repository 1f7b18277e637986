"""Where the database lives: reachable for its user, and tied to its data folder."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.exits import ToolError
from config.up import home as home_module
from config.up.account import Account, can_enter, database_account
from config.up.datadir import DataFolder, open_folder
from config.up.home import make_owned, note_initialised, settle

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the database as another")


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Answer a folder that every user reaches, in the place of /var/lib."""
    path = Path(tempfile.mkdtemp(prefix="reachable-", dir="/tmp"))
    path.chmod(0o755)
    monkeypatch.setattr(home_module, "REACHABLE", (path,))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def closed(tmp_path: Path) -> DataFolder:
    """Answer a data folder under a parent that only we enter."""
    parent = tmp_path / "closed"
    parent.mkdir(mode=0o700)
    return open_folder(parent / "data")


@pytest.fixture
def account() -> Account | None:
    return database_account(os.environ)


def test_a_home_is_found_again(closed: DataFolder, reachable: Path) -> None:
    assert settle(closed, None).path == settle(closed, None).path == closed.path / "database"
    assert list(reachable.iterdir()) == []


def test_a_home_inside_moves_with_its_data_folder(closed: DataFolder, tmp_path: Path) -> None:
    settle(closed, None)
    moved = closed.path.rename(tmp_path / "moved")
    assert settle(open_folder(moved), None).path == moved / "database"


def test_a_database_that_vanished_is_an_error_and_not_a_new_one(closed: DataFolder) -> None:
    home = settle(closed, None)
    home.cluster.mkdir()
    note_initialised(closed, home)
    assert settle(closed, None).is_initialised
    home.cluster.rmdir()
    with pytest.raises(ToolError, match="is gone from") as caught:
        settle(closed, None)
    assert "\n" not in str(caught.value)
    assert not home.cluster.exists()


def test_a_start_that_was_interrupted_before_the_database_stood_is_done_again(
    closed: DataFolder,
) -> None:
    settle(closed, None)
    assert not settle(closed, None).is_initialised


@as_root
def test_under_a_closed_parent_the_home_lies_where_its_user_reaches_it(
    closed: DataFolder, reachable: Path, account: Account
) -> None:
    home = settle(closed, account)
    assert home.path.parent == reachable
    assert can_enter(account, home.path)
    make_owned(home.cluster, account)
    assert home.cluster.stat().st_uid == account.uid
    assert settle(closed, account).path == home.path
    # Nobody needs a way through the data folder then.
    assert closed.path.stat().st_mode & 0o777 == 0o700


@as_root
def test_under_an_open_parent_the_home_lies_inside_and_nothing_can_be_listed(
    reachable: Path, account: Account
) -> None:
    folder = open_folder(reachable / "data")
    home = settle(folder, account)
    assert home.path == folder.path / "database"
    assert can_enter(account, home.path)
    assert folder.path.stat().st_mode & 0o777 == 0o711


@as_root
def test_a_vanished_home_outside_is_an_error(
    closed: DataFolder, reachable: Path, account: Account
) -> None:
    shutil.rmtree(settle(closed, account).path)
    with pytest.raises(ToolError, match="is gone from"):
        settle(closed, account)
    assert list(reachable.iterdir()) == []


@as_root
def test_a_home_of_another_data_folder_is_refused(
    closed: DataFolder, reachable: Path, account: Account, tmp_path: Path
) -> None:
    settle(closed, account)
    other = open_folder(tmp_path / "other")
    shutil.copy(closed.pointer_file, other.pointer_file)
    with pytest.raises(ToolError, match="another folder"):
        settle(other, account)
    assert len(list(reachable.iterdir())) == 1


@as_root
def test_a_home_goes_when_its_data_folder_was_deleted_and_begins_anew(
    closed: DataFolder, reachable: Path, account: Account
) -> None:
    old = settle(closed, account)
    shutil.rmtree(closed.path)
    new = settle(open_folder(closed.path), account)
    assert new.path != old.path
    assert list(reachable.iterdir()) == [new.path]


@as_root
def test_a_home_stays_with_a_data_folder_that_was_moved(
    closed: DataFolder, reachable: Path, account: Account
) -> None:
    old = settle(closed, account)
    moved = closed.path.rename(closed.path.with_name("moved"))
    # Another one begins where it stood before it is used again.
    settle(open_folder(closed.path), account)
    assert settle(open_folder(moved), account).path == old.path
    assert len(list(reachable.iterdir())) == 2
    # From now on it is tied to its new path.
    shutil.rmtree(moved)
    settle(open_folder(moved), account)
    assert not old.path.exists()


@as_root
def test_a_home_that_nothing_tells_about_stays(
    closed: DataFolder, reachable: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: Path, _target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    old = settle(closed, account)
    shutil.rmtree(closed.path)
    settle(open_folder(closed.path), account)
    assert old.path.exists()
    assert len(list(reachable.iterdir())) == 2


@as_root
def test_a_copied_data_folder_does_not_share_the_database(
    closed: DataFolder, reachable: Path, account: Account, tmp_path: Path
) -> None:
    home = settle(closed, account)
    copy = shutil.copytree(closed.path, tmp_path / "copy")
    with pytest.raises(ToolError, match="is a copy of"):
        settle(open_folder(copy), account)
    assert list(reachable.iterdir()) == [home.path]
    assert settle(closed, account).path == home.path


@as_root
def test_a_home_inside_that_its_user_cannot_reach_any_more_is_an_error(
    reachable: Path, account: Account, tmp_path: Path
) -> None:
    folder = open_folder(reachable / "data")
    settle(folder, account)
    moved = Path(shutil.move(folder.path, tmp_path / "data"))
    with pytest.raises(ToolError, match="cannot reach"):
        settle(open_folder(moved), account)


@as_root
def test_a_folder_that_is_not_ours_is_never_dropped(
    closed: DataFolder, reachable: Path, account: Account
) -> None:
    (reachable / "pagewarden-notes").mkdir()
    settle(closed, account)
    assert (reachable / "pagewarden-notes").exists()


@as_root
@pytest.mark.parametrize(("name", "complaint"), [("root", "names root"), ("no-such", "no user")])
def test_a_database_user_that_cannot_serve_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        database_account({"PAGEWARDEN_DB_USER": name})
