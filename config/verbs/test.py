"""The verb `test`: sets up a database, a broker and a browser, then runs the tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from common.exits import EXIT_FAIL, EXIT_PASS, EXIT_TOOL, EXIT_USAGE
from config.up.scratch import scratch_store

SUMMARY = "run the tests [--slow] [--engines]"
ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Marked tests run only when their flag is given.
FLAGS = {"--slow": "slow", "--engines": "engines"}
#: Source: pytest's ExitCode: 0 passed, 1 failed, 4 wrong usage; the others are its own faults
#: or no test at all, which is no pass.
CODES = {0: EXIT_PASS, 1: EXIT_FAIL, 4: EXIT_USAGE}


def main(argv: list[str]) -> int:
    """Run the tests; what is no flag of ours goes to pytest. Raises ToolError, OSError."""
    # As Ctrl-C, so that database and temporary folders go too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with scratch_store(ROOT) as scratch:
        env = {**os.environ, **scratch.environment()}
        browser = find_browser(env) or _install_browser()
        if browser:
            env["PAGEWARDEN_CHROMIUM"] = browser
        command = [sys.executable, "-m", "pytest", *pytest_arguments(argv)]
        done = subprocess.run(command, check=False, cwd=ROOT, env=env)  # noqa: S603 - pytest
    return CODES.get(done.returncode, EXIT_TOOL)


def pytest_arguments(argv: list[str]) -> list[str]:
    """Answer pytest's arguments: marks that were not asked for are left out."""
    unwanted = [mark for flag, mark in FLAGS.items() if flag not in argv]
    rest = [word for word in argv if word not in FLAGS]
    if unwanted and "-m" not in rest:
        rest = ["-m", " and ".join(f"not {mark}" for mark in unwanted), *rest]
    # Every skip is told with its reason: a test that did not run proves nothing.
    return ["-rs", *rest]


def find_browser(env: Mapping[str, str]) -> str | None:
    """Answer a Chromium that is there already."""
    named = env.get("PAGEWARDEN_CHROMIUM")
    if named and os.access(named, os.X_OK):
        return named
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def _install_browser() -> str | None:
    """Install Debian's Chromium where that can be done; without it the browser tests skip."""
    apt_get = shutil.which("apt-get")
    if os.geteuid() != 0 or apt_get is None:
        return None
    print("pagewarden: installing Chromium for the browser tests", file=sys.stderr)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("update", "-qq"), ("install", "-y", "-qq", "chromium")):
        # To standard error, where all of the set-up speaks.
        done = subprocess.run(  # noqa: S603 - fixed words
            (apt_get, *command), check=False, env=env, stdin=subprocess.DEVNULL, stdout=2
        )
        if done.returncode != 0:
            print(
                "pagewarden: Chromium could not be installed; browser tests skip",
                file=sys.stderr,
            )
            return None
    return find_browser({})
