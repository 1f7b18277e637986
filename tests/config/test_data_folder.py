"""The data folder: closed to others, held by one, and never somebody else's folder."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from common.exits import ToolError
from config.up import keys
from config.up.datadir import claimed, default_path, open_folder, write_private
from probes.proof_bundle import BrokenProof, open_proof, public_key_of, sign

ROOT = Path(__file__).resolve().parents[2]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "a" / "data")
    assert {mode_of(p) for p in (folder.path, folder.keys, folder.logs)} == {0o700}


def test_a_folder_keeps_its_id(tmp_path: Path) -> None:
    first = open_folder(tmp_path / "data")
    assert open_folder(first.path).folder_id == first.folder_id
    assert open_folder(tmp_path / "other").folder_id != first.folder_id


def test_a_folder_with_other_peoples_things_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "letters").touch()
    with pytest.raises(ToolError, match="not empty"):
        open_folder(tmp_path)
    assert mode_of(tmp_path) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolError, match=r"cannot be used: .*--data-dir") as caught:
        open_folder(tmp_path / "file" / "data")
    assert "\n" not in str(caught.value)


def test_a_second_holder_is_told_the_first_ones_pid(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from config.up.datadir import claimed, open_folder\n"
        "with claimed(open_folder(pathlib.Path(sys.argv[1])).path):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()"
    )
    holder = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, tmp_path / "data"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    folder = open_folder(tmp_path / "data")
    with pytest.raises(ToolError, match=rf"pid {holder.pid}\b"), claimed(folder.path):
        pass
    holder.kill()
    holder.communicate()
    # A killed holder holds nothing.
    with claimed(folder.path):
        pass


def test_what_is_written_is_whole_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o644)
    write_private(path, "text")
    assert (path.read_text(encoding="ascii"), mode_of(path)) == ("text", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_lost_key_is_an_error_and_not_a_new_one(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "data")
    keys.make_keys(folder)
    sealing = keys.read_key(folder, keys.SEALING_KEY)
    keys.make_keys(folder)
    assert keys.read_key(folder, keys.SEALING_KEY) == sealing
    keys.key_path(folder, keys.SEALING_KEY).unlink()
    with pytest.raises(ToolError, match="sealing-key is missing"):
        keys.make_keys(folder)
    # An interrupted first start had made some; those are kept and the others follow.
    (folder.keys / "made.json").unlink()
    secret = keys.read_key(folder, keys.SECRET_KEY)
    keys.make_keys(folder)
    assert keys.read_key(folder, keys.SECRET_KEY) == secret
    assert keys.read_key(folder, keys.SEALING_KEY) != sealing


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"PAGEWARDEN_DATA": "/srv/pw", "XDG_DATA_HOME": "/x"}, Path("/srv/pw")),
        ({"XDG_DATA_HOME": "/x"}, Path("/x/pagewarden")),
        ({"XDG_DATA_HOME": "relative"}, Path.home() / ".local/share/pagewarden"),
        ({}, Path.home() / ".local/share/pagewarden"),
    ],
)
def test_the_default_folder_follows_the_environment(environ: dict[str, str], path: Path) -> None:
    assert default_path(environ) == path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "data")
    os.chown(folder.path / "data-folder.json", 12345, 12345)
    with pytest.raises(ToolError, match="belongs to user id 12345"):
        open_folder(folder.path)


def test_the_key_that_signs_proofs_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "data")
    keys.make_keys(folder)
    path = keys.key_path(folder, keys.PROOF_KEY)
    assert mode_of(path) == 0o600
    private = path.read_bytes()
    envelope = sign(b"{}", private).encode()
    # What is signed is no proof, but the signature is found to be by this key.
    with pytest.raises(BrokenProof, match="no proof of a gate"):
        open_proof(envelope, public_key_of(private).encode())
    keys.make_keys(folder)
    assert path.read_bytes() == private
    # A folder of an earlier version has all keys but this one.
    made = json.loads((folder.keys / "made.json").read_text())["made"]
    (folder.keys / "made.json").write_text(
        json.dumps({"made": [name for name in made if name != keys.PROOF_KEY]})
    )
    path.unlink()
    keys.make_keys(folder)
    assert path.read_bytes() != private
    path.unlink()
    with pytest.raises(ToolError, match="proof-key is missing"):
        keys.make_keys(folder)
