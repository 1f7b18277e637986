"""The verb `bench`: runs every benchmark under bench/, or the named ones with their options."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from common.exits import (
    EXIT_FAIL,
    EXIT_INCONCLUSIVE,
    EXIT_PASS,
    EXIT_TOOL,
    ToolError,
    UsageError,
)

SUMMARY = "run the benchmarks [NAME] [--nodes N] [--rounds N]"
ROOT = Path(__file__).resolve().parents[2]


def main(argv: list[str]) -> int:
    """Run benchmarks; each is a program of its own, which takes the options.

    Raises UsageError, ToolError.
    """
    # As Ctrl-C, so that servers and the database of a benchmark go too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = {path.stem for path in sorted((ROOT / "bench").glob("[!_]*.py"))}
    if not found:
        raise ToolError("there is no benchmark under bench/")
    names, options = split_words(argv)
    unknown = [name for name in names if name not in found]
    if unknown:
        raise UsageError(f"no benchmark {unknown[0]!r}; there are: {', '.join(sorted(found))}")
    codes = [_run(name, options) for name in names or sorted(found)]
    # 2 is argparse's word for options that it does not know.
    if EXIT_INCONCLUSIVE in codes:
        raise UsageError("the benchmark does not take these options")
    return next((EXIT_TOOL if code > EXIT_FAIL else EXIT_FAIL for code in codes if code), EXIT_PASS)


def split_words(argv: list[str]) -> tuple[list[str], list[str]]:
    """Answer the benchmarks' names, which come first, and the options after them."""
    first = next((place for place, word in enumerate(argv) if word.startswith("-")), len(argv))
    return argv[:first], argv[first:]


def _run(name: str, options: list[str]) -> int:
    print(f"== {name}", flush=True)
    command = (sys.executable, "-m", f"bench.{name}", *options)
    return subprocess.run(command, check=False, cwd=ROOT).returncode  # noqa: S603 - our files
