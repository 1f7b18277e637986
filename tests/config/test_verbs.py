"""The verbs for developers, and what passes through to Django's manage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.exits import ToolError, UsageError
from config.verbs import bench, lint
from config.verbs.lint import LOCKS, Tool, lock_complaints
from config.verbs.test import find_browser, pytest_arguments

ROOT = Path(__file__).resolve().parents[2]
PASSES = Tool(name="passes", argv=(sys.executable, "-c", "pass"))
FAILS = Tool(name="fails", argv=(sys.executable, "-c", "raise SystemExit(1)"))


@pytest.mark.parametrize(
    ("words", "expression"),
    [
        ([], "not slow and not engines"),
        (["--slow"], "not engines"),
        (["--engines"], "not slow"),
    ],
)
def test_marked_tests_run_only_when_asked_for(words: list[str], expression: str) -> None:
    assert pytest_arguments([*words, "tests/drill"]) == ["-rs", "-m", expression, "tests/drill"]


def test_with_all_flags_every_test_runs() -> None:
    assert pytest_arguments(["--slow", "--engines"]) == ["-rs"]


def test_a_users_own_marks_are_kept() -> None:
    assert pytest_arguments(["-m", "browser"]) == ["-rs", "-m", "browser"]


def test_a_named_browser_that_cannot_run_is_not_used(tmp_path: Path) -> None:
    named = tmp_path / "chromium"
    named.touch(mode=0o600)
    assert find_browser({"PAGEWARDEN_CHROMIUM": str(named)}) != str(named)
    named.chmod(0o700)
    assert find_browser({"PAGEWARDEN_CHROMIUM": str(named)}) == str(named)


def test_a_failed_check_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lint, "TOOLS", (FAILS, PASSES))
    assert lint.main([]) == 1
    out = capsys.readouterr().out
    assert "fails: FAILED" in out
    assert "passes: passed" in out
    monkeypatch.setattr(lint, "TOOLS", (PASSES, PASSES))
    assert lint.main([]) == 0


def test_lint_takes_no_arguments() -> None:
    with pytest.raises(UsageError):
        lint.main(["--fix"])


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("django==5.2.19 \\", False),
        ("    --hash=sha256:0f", False),
        ("    # via httpx", False),
        ("colorama==0.4.6 ; sys_platform == 'win32' \\", False),
        ("--index-url https://packages.example.org/simple", True),
        ("--find-links /opt/wheels", True),
        ("thing @ file:///opt/thing.whl", True),
        ("thing @ git.example.com/thing", True),
    ],
)
def test_a_lock_that_names_a_host_is_told(line: str, is_wrong: bool, tmp_path: Path) -> None:
    for name in LOCKS:
        (tmp_path / name).write_text(f"{line}\n", encoding="ascii")
    assert bool(lock_complaints(tmp_path)) is is_wrong


def test_the_locks_of_this_checkout_name_no_host() -> None:
    assert lock_complaints() == []


def test_an_unknown_benchmark_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    (tmp_path / "bench").mkdir()
    # Silence would read as a pass.
    with pytest.raises(ToolError):
        bench.main([])
    (tmp_path / "bench" / "gates.py").write_text("raise SystemExit(1)", encoding="ascii")
    with pytest.raises(UsageError, match="gates"):
        bench.main(["nothing"])
    assert bench.main([]) == 1


def run_cli(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "config.cli", *words],
        check=False,
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", **env},
        capture_output=True,
        text=True,
    )


def test_an_unknown_verb_is_wrong_usage() -> None:
    done = run_cli("gaet")
    assert done.returncode == 4, done.stderr
    assert done.stderr == "pagewarden: unknown verb 'gaet'; see `pagewarden --help`\n"


def test_a_wrong_option_of_manage_is_wrong_usage() -> None:
    done = run_cli("migrate", "--no-such-option")
    assert done.returncode == 4
    assert "Traceback" not in done.stderr


def test_a_database_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    url = f"postgresql://nobody@{str(tmp_path).replace('/', '%2F')}/none"
    done = run_cli("showmigrations", DATABASE_URL=url, PAGEWARDEN_DATA=str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "does not answer" in done.stderr


def test_a_verb_on_stored_objects_needs_something_that_runs(tmp_path: Path) -> None:
    done = run_cli("audit", DATABASE_URL="", PAGEWARDEN_DATA=str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "no `pagewarden up` is running" in done.stderr
