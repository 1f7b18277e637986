"""The contract of exit codes, and what the dispatcher loads."""

from __future__ import annotations

import argparse
import stat
import subprocess
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from common.exits import ToolError, UsageError, VerdictExit
from config import cli

ROOT = Path(__file__).resolve().parents[2]
DATABASE_LESS = ("gate", "judge", "capture", "canary", "drill")


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the details of errors made here out of the user's folders."""
    monkeypatch.setenv("PAGEWARDEN_DATA", str(tmp_path))
    (tmp_path / "logs").mkdir()
    return tmp_path


def verb_that(act: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Install a verb of our own and answer the command line that calls it."""
    module = types.ModuleType("made_up_verb")
    module.main = lambda _argv: act()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_up_verb", module)
    monkeypatch.setitem(cli.VERBS, "made-up", cli.Verb(module="made_up_verb", summary=""))
    return ["made-up"]


def raises(exc: BaseException) -> Callable[[], int]:
    def act() -> int:
        raise exc

    return act


def test_a_verbs_own_code_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for code in range(5):
        assert cli.main(verb_that(partial(int, code), monkeypatch)) == code


def test_a_code_outside_the_contract_is_the_tools_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cli.main(verb_that(lambda: 5, monkeypatch)) == 3


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (UsageError("no such gate"), 4),
        (ToolError("port 8000 is taken"), 3),
        (KeyboardInterrupt(), 3),
        (SystemExit(0), 0),
        (SystemExit(None), 0),
        # argparse and Django end wrong usage with these; as verdicts they would read fail and
        # inconclusive.
        (SystemExit(1), 4),
        (SystemExit(2), 4),
        (SystemExit(3), 3),
        (SystemExit(120), 3),
        (SystemExit("it went wrong"), 3),
        (VerdictExit(1), 1),
        (VerdictExit(2), 2),
        (MemoryError(), 3),
    ],
)
def test_every_end_has_its_code(
    exc: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(verb_that(raises(exc), monkeypatch)) == code
    assert capsys.readouterr().err.count("\n") <= 1


def test_an_unforeseen_error_is_one_line_and_its_traceback_is_closed_to_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data_folder: Path
) -> None:
    assert cli.main(verb_that(raises(RuntimeError("first\nsecond")), monkeypatch)) == 3
    err = capsys.readouterr().err
    assert err.startswith("pagewarden: internal error: RuntimeError: first second (details: ")
    assert err.count("\n") == 1
    details = next((data_folder / "logs").iterdir())
    assert str(details) in err
    assert "Traceback" in details.read_text(encoding="utf-8")
    assert stat.S_IMODE(details.stat().st_mode) == 0o600


def test_a_wrong_option_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    def act() -> int:
        argparse.ArgumentParser().parse_args(["--no-such-option"])
        return 0

    assert cli.main(verb_that(act, monkeypatch)) == 4


def test_help_passes_and_no_verb_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "usage:" in capsys.readouterr().out
    assert cli.main([]) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "usage:" in shown.err


def test_a_verb_that_is_not_there_yet_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.VERBS, "later", cli.Verb(module="probes.verbs.later", summary=""))
    assert cli.main(["later"]) == 4
    assert capsys.readouterr().err == "pagewarden: later is not built yet\n"


def test_a_package_missing_inside_a_verb_is_not_taken_for_a_missing_verb(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "verb_with_a_hole.py").write_text("import no_such_package\n", encoding="ascii")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(cli.VERBS, "hole", cli.Verb(module="verb_with_a_hole", summary=""))
    assert cli.main(["hole"]) == 3


def run_cli(*words: str, stdout: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "config.cli", *words]
    return subprocess.run(command, check=False, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE)  # noqa: S603


def test_an_answer_that_cannot_be_written_is_no_pass() -> None:
    with Path("/dev/full").open("wb") as full:
        done = run_cli("--help", stdout=full.fileno())
    assert done.returncode == 3
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_left_is_no_pass_and_makes_no_noise() -> None:
    # It waits for our word, so that the reader has left before anything is written.
    code = "import sys; from config.cli import main; sys.stdin.readline(); sys.exit(main(['help']))"
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(b"go\n")
    assert (process.returncode, err) == (3, b"")


@pytest.mark.parametrize("verb", DATABASE_LESS)
def test_a_verb_without_database_loads_no_django(verb: str) -> None:
    code = (
        "import importlib, sys; from config.cli import VERBS;"
        f"importlib.import_module(VERBS[{verb!r}].module);"
        "print(*{name.split('.')[0] for name in sys.modules} & {'django', 'psycopg', 'celery'})"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("verb", DATABASE_LESS)
def test_a_verb_without_database_starts_in_under_two_seconds(verb: str) -> None:
    def start_s() -> float:
        started_s = time.monotonic()
        subprocess.run(  # noqa: S603
            [ROOT / "pagewarden", verb, "--help"], check=True, capture_output=True, cwd="/"
        )
        return time.monotonic() - started_s

    # The better of two: the first may read its files from a cold disk.
    assert min(start_s(), start_s()) < 2
