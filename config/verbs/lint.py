"""The verb `lint`: every check of style, types, floors and locks; it goes on after a failure."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common.exits import EXIT_FAIL, EXIT_PASS, UsageError

SUMMARY = "check style, types and floors"
ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")
#: A lock names packages, versions and hashes. Where they come from is each machine's own affair.
HOST_NAME = re.compile(r"://|^\s*-|\s@\s|\b[a-z0-9-]+\.(?:org|com|net|io|dev)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One check: a command, or a function that answers complaints."""

    name: str
    argv: tuple[str, ...] = ()
    complaints: Callable[[], list[str]] | None = None


def main(argv: list[str]) -> int:
    """Run all checks and answer whether all passed. Raises UsageError."""
    if argv:
        raise UsageError("lint takes no arguments")
    failed = [tool.name for tool in TOOLS if not _run(tool)]
    print(f"lint: {len(TOOLS) - len(failed)} passed, {len(failed)} failed", flush=True)
    for name in failed:
        print(f"  failed: {name}")
    return EXIT_FAIL if failed else EXIT_PASS


def lock_complaints(root: Path = ROOT) -> list[str]:
    """Answer the lines of the locks that name a host or an index."""
    complaints = []
    for name in LOCKS:
        for number, line in enumerate((root / name).read_text(encoding="utf-8").splitlines(), 1):
            is_hash_or_comment = line.strip().startswith(("--hash=", "#"))
            if not is_hash_or_comment and HOST_NAME.search(line):
                complaints.append(f"{name}:{number}: names a host or an option: {line.strip()}")
    return complaints


def _run(tool: Tool) -> bool:
    print(f"== {tool.name}", flush=True)
    started_s = time.monotonic()
    if tool.complaints is not None:
        found = tool.complaints()
        print("\n".join(found), end="\n" if found else "", flush=True)
        has_passed = not found
    else:
        with _environment() as env:
            done = subprocess.run(tool.argv, check=False, cwd=ROOT, env=env)  # noqa: S603 - TOOLS
        has_passed = done.returncode == 0
    word = "passed" if has_passed else "FAILED"
    print(f"-- {tool.name}: {word} in {time.monotonic() - started_s:.1f} s", flush=True)
    return has_passed


@contextlib.contextmanager
def _environment() -> Iterator[dict[str, str]]:
    """Answer variables with which the settings load; no database is asked."""
    with tempfile.NamedTemporaryFile(prefix="pagewarden-lint-") as key_file:
        yield {
            "PAGEWARDEN_SECRET_KEY": "only-for-checks",
            "PAGEWARDEN_SEALING_KEY_FILE": key_file.name,
            # `makemigrations` would compare with a database too, and warns where none answers.
            "PYTHONWARNINGS": "ignore::RuntimeWarning",
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }


def _program(name: str, *words: str) -> tuple[str, ...]:
    return (str(Path(sys.executable).with_name(name)), *words)


TOOLS = (
    Tool(name="ruff check", argv=_program("ruff", "check", ".")),
    Tool(name="ruff format", argv=_program("ruff", "format", "--check", ".")),
    Tool(name="mypy", argv=_program("mypy", ".")),
    Tool(name="djlint format", argv=_program("djlint", "templates", "--check", "--quiet")),
    Tool(name="djlint lint", argv=_program("djlint", "templates", "--lint", "--quiet")),
    Tool(name="floors", argv=_program("lint-imports")),
    Tool(
        name="migrations",
        argv=(sys.executable, "manage.py", "makemigrations", "--check", "--dry-run", "-v", "1"),
    ),
    Tool(name="locks without host names", complaints=lock_complaints),
)
