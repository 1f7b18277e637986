"""Verb ``sweep``: reads the whole fleet from the shell and exits by the worst verdict."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.exits import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_TOOL, UsageError, VerdictExit
from common.operator import operator_name
from common.verdicts import Verdict, worst
from fleet.models import Deployment
from fleet.sweep import SweepError, SweepProgress, shards_waiting, sweep_begin, sweep_progress
from probes.sweep_conduct import sweep_conduct

_EXIT = {Verdict.PASS: EXIT_PASS, Verdict.FAIL: EXIT_FAIL, Verdict.ERROR: EXIT_TOOL}


class Command(BaseCommand):
    """``sweep [DEPLOYMENT]... [--json]``."""

    help = "read every node of the fleet, or of some deployments, and judge by the gates"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take names of deployments."""
        parser.add_argument("deployment", nargs="*")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Begin the sweep, read its shards here, print what came of it, exit by the worst."""
        try:
            sweep = sweep_begin(
                actor=operator_name(), trigger="shell", only=_keys_of(options["deployment"])
            )
        except SweepError as error:
            raise UsageError(str(error)) from error
        while key := shards_waiting().filter(sweep=sweep).values_list("pk", flat=True).first():
            sweep_conduct(shard_pk=key)
            self.stderr.write(_line(sweep_progress(sweep)))
        sweep.refresh_from_db()
        progress = sweep_progress(sweep)
        self.stdout.write(
            json.dumps(sweep_document(progress)) if options["json"] else _line(progress)
        )
        raise VerdictExit(_EXIT.get(verdict_of(progress), EXIT_INCONCLUSIVE))


def verdict_of(progress: SweepProgress) -> Verdict:
    """Answer the worst verdict; a node that nobody read, or that is still being read, is none."""
    found = [Verdict(word) for word in progress.verdicts]
    if progress.done < progress.total or not progress.is_over:
        found.append(Verdict.INCONCLUSIVE)
    return worst(found)


def sweep_document(progress: SweepProgress) -> dict[str, Any]:
    """Answer what came of a sweep as one JSON object."""
    return {
        "sweep": progress.sweep.pk,
        "verdict": str(verdict_of(progress)),
        "nodes": {"done": progress.done, "total": progress.total, "unread": progress.unread},
        "outcomes": dict(progress.outcomes),
        "verdicts": dict(progress.verdicts),
        "problems": list(progress.problems),
    }


def _keys_of(names: list[str]) -> list[int] | None:
    """Answer the keys of named deployments, None for all. Raises UsageError."""
    known = dict(Deployment.objects.values_list("name", "pk"))
    for name in names:
        if name not in known:
            raise UsageError(
                f"no deployment is called {name}; there are: {', '.join(known) or 'none yet'}"
            )
    return [known[name] for name in names] or None


def _line(progress: SweepProgress) -> str:
    outcomes = ", ".join(f"{number} {word}" for word, number in progress.outcomes.items())
    verdicts = ", ".join(f"{number} {word}" for word, number in progress.verdicts.items())
    return (
        f"{progress.done} of {progress.total} nodes ({outcomes or 'none answered yet'}); "
        f"deployments: {verdicts or 'none judged yet'}"
    )
