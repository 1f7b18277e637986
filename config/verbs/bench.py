"""The verb `bench`: runs every benchmark under bench/, or the named ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from common.exits import EXIT_FAIL, EXIT_PASS, ToolError, UsageError

SUMMARY = "run the benchmarks"
ROOT = Path(__file__).resolve().parents[2]


def main(argv: list[str]) -> int:
    """Run benchmarks; each is a program of its own. Raises UsageError, ToolError."""
    found = {path.stem: path for path in sorted((ROOT / "bench").glob("[!_]*.py"))}
    if not found:
        raise ToolError("there is no benchmark under bench/")
    unknown = [name for name in argv if name not in found]
    if unknown:
        raise UsageError(f"no benchmark {unknown[0]!r}; there are: {', '.join(found)}")
    failed = [name for name in argv or found if not _run(found[name])]
    return EXIT_FAIL if failed else EXIT_PASS


def _run(path: Path) -> bool:
    print(f"== {path.stem}", flush=True)
    command = (sys.executable, str(path))
    return subprocess.run(command, check=False, cwd=ROOT).returncode == 0  # noqa: S603 - our files
