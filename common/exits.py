"""Exit codes of the command line, and the errors that carry them."""

from __future__ import annotations

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_INCONCLUSIVE = 2
EXIT_TOOL = 3
EXIT_USAGE = 4


class UsageError(Exception):
    """The command was asked in a way it does not take; the text is one line for the user."""


class ToolError(Exception):
    """The tool could not do its own work; the text is one line for the user."""


class VerdictExit(SystemExit):
    """Ends a management command with a verdict's own exit code, which is then left as it is.

    Django ends a ``CommandError`` with 1 whatever went wrong; a command that judged something
    raises this instead, so that a fail and a wrong option stay apart.
    """

    def __init__(self, returncode: int) -> None:
        super().__init__(returncode)
        self.returncode = returncode
