"""Passes a verb to Django's manage, on the database of the `up` that runs."""

from __future__ import annotations

import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line, get_commands
from django.db import OperationalError

from common.exits import EXIT_PASS, ToolError, UsageError
from config.up.running import running_environment

SUMMARY = "run a command of Django's manage"
#: The product's own verbs; each works on what an `up` or a server keeps.
ON_STORED_OBJECTS = frozenset({"audit", "incident", "runbook", "postmortem"})
NO_DATABASE = (
    "no `pagewarden up` is running here: start it (PAGEWARDEN_DATA names a data folder of its own) "
    "or set DATABASE_URL"
)


def main(argv: list[str]) -> int:
    """Run a command of manage. Raises UsageError, ToolError, SystemExit."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ.update(running_environment(os.environ))
    if argv[0] in ON_STORED_OBJECTS and not os.environ.get("DATABASE_URL"):
        raise ToolError(NO_DATABASE)
    try:
        django.setup()
        if argv[0] not in get_commands():
            raise UsageError(f"unknown verb {argv[0]!r}; see `pagewarden --help`")
        execute_from_command_line(["pagewarden", *argv])
    except ImproperlyConfigured as exc:
        raise ToolError(f"the settings are wrong: {' '.join(str(exc).split())}") from exc
    except OperationalError as exc:
        sys.stderr.flush()
        raise ToolError(
            "the database does not answer; is `pagewarden up` running, or DATABASE_URL right?"
        ) from exc
    return EXIT_PASS
