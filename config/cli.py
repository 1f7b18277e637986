"""The command line: finds the verb's module, runs it, and keeps the contract of exit codes."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.exits import EXIT_PASS, EXIT_TOOL, EXIT_USAGE, ToolError, UsageError, VerdictExit
from config.up.datadir import default_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One word of the command line and the module behind it."""

    module: str
    summary: str


#: Imported only when asked for: verbs without a database start fast and never load Django.
VERBS = {
    "up": Verb(module="config.up.main", summary="set up and run everything, drill included"),
    "gate": Verb(module="probes.verbs.gate", summary="judge live nodes before a deploy"),
    "capture": Verb(module="probes.verbs.capture", summary="save what live nodes answer"),
    "judge": Verb(module="probes.verbs.judge", summary="judge saved answers"),
    "canary": Verb(module="probes.verbs.canary", summary="send marked prompts as two tenants"),
    "affected": Verb(module="incidents.verbs.affected", summary="classify the requests of logs"),
    "drill": Verb(module="drill.__main__", summary="run the simulated cluster alone"),
    "test": Verb(module="config.verbs.test", summary="run the tests [--slow] [--engines]"),
    "lint": Verb(module="config.verbs.lint", summary="check style, types and floors"),
    "bench": Verb(module="config.verbs.bench", summary="run the benchmarks"),
}
#: Named here for the help alone: they are commands of Django's manage.
MANAGE_SUMMARIES = {
    "audit": "audit a deployment",
    "incident": "look at incidents",
    "runbook": "look at runbooks and their runs",
    "postmortem": "export a post-mortem",
    "fleet": "export, import or discover deployments",
    "sweep": "read the whole fleet",
    "api_token": "tokens for POST /api/gate",
}
MANAGE = "config.verbs.manage"
HELP_WORDS = frozenset({"-h", "--help", "help"})
EXIT_CODES = (
    "exit codes: 0 pass, 1 fail, 2 inconclusive or not exercised, 3 the tool itself failed, "
    "4 wrong usage"
)


def main(argv: list[str]) -> int:
    """Run one verb and answer its exit code. Raises nothing."""
    try:
        code = _guarded(argv)
        # Here and not at exit, where a full disk would end in Python's own code 120.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone and cannot have read the verdict, so this is no pass.
        _drop_stdout()
        return EXIT_TOOL
    except OSError as exc:
        _drop_stdout()
        _complain(f"the answer could not be written: {exc.strerror}")
        return EXIT_TOOL
    return code


def usage() -> str:
    """Answer the help text."""
    summaries = {name: verb.summary for name, verb in VERBS.items()} | MANAGE_SUMMARIES
    rows = [f"  {name:<11} {summary}" for name, summary in summaries.items()]
    rest = "  any other word is a command of Django's manage (migrate, shell, ...)"
    return "\n".join(["usage: pagewarden VERB [OPTION]...", "", *rows, rest, "", EXIT_CODES])


def _guarded(argv: list[str]) -> int:
    """Run a verb; every way to end becomes a code of the contract. Raises BrokenPipeError."""
    try:
        return _dispatch(argv)
    except UsageError as exc:
        return _complain(str(exc), code=EXIT_USAGE)
    except ToolError as exc:
        return _complain(str(exc))
    except SystemExit as exc:
        return code_of_exit(exc)
    except KeyboardInterrupt:
        return _complain("interrupted")
    except BrokenPipeError:
        raise
    except BaseException as exc:  # noqa: BLE001  # the last line before the user
        return _complain(f"internal error: {_one_line(exc)}{_save_details(exc)}")


def code_of_exit(stop: SystemExit) -> int:
    """Answer the contract's code for an exit that somebody else's parser or command chose."""
    if isinstance(stop, VerdictExit):
        return stop.returncode
    if stop.code is None:
        return EXIT_PASS
    if not isinstance(stop.code, int):
        return _complain(str(stop.code))
    # argparse ends a wrong option with 2, Django a wrong command with 1: neither is a verdict.
    return {0: EXIT_PASS, 1: EXIT_USAGE, 2: EXIT_USAGE, 4: EXIT_USAGE}.get(stop.code, EXIT_TOOL)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in HELP_WORDS:
        print(usage(), file=sys.stdout if argv else sys.stderr)
        return EXIT_PASS if argv else EXIT_USAGE
    verb = VERBS.get(argv[0])
    if verb is None:
        return _run(argv[0], MANAGE, argv)
    return _run(argv[0], verb.module, argv[1:])


def _run(verb: str, module: str, argv: list[str]) -> int:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as exc:
        # Only the verb's own module: a missing package inside it is an error of ours.
        if exc.name is None or not f"{module}.".startswith(f"{exc.name}."):
            raise
        raise UsageError(f"{verb} is not built yet") from None
    run: Callable[[list[str]], int] = found.main
    code = run(argv)
    return code if code in range(EXIT_USAGE + 1) else EXIT_TOOL


def _complain(line: str, *, code: int = EXIT_TOOL) -> int:
    try:
        print(f"pagewarden: {line}", file=sys.stderr, flush=True)
    except OSError:
        # Nobody is left to tell; the code still says it.
        return code
    return code


def _one_line(exc: BaseException) -> str:
    text = " ".join(str(exc).split())[:200]
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _save_details(exc: BaseException) -> str:
    """Write the traceback where only the user reads it; answer the words that say where."""
    name = f"error-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-"
    logs = default_path(os.environ) / "logs"
    for folder in (logs, Path(tempfile.gettempdir())):
        try:
            # It makes a file of mode 0600.
            descriptor, path = tempfile.mkstemp(prefix=name, suffix=".txt", dir=folder)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.writelines(traceback.format_exception(exc))
        except OSError:
            continue
        return f" (details: {path})"
    return ""


def _drop_stdout() -> None:
    """Point standard output to nowhere, so that Python's own flush at exit finds no fault."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
