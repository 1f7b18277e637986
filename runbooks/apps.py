"""What to do about it."""

from __future__ import annotations

from django.apps import AppConfig

from common.registry import load_plugins


class RunbooksConfig(AppConfig):
    """Loads runbooks, steps and levers, and the sweep that keeps runs going."""

    name = "runbooks"

    def ready(self) -> None:
        """Import every runbook, step, lever and the sweep."""
        load_plugins("runbooks.levers")
        load_plugins("runbooks.steps")
        load_plugins("runbooks.books")
        from runbooks import retire_objection, sweeps  # noqa: F401, PLC0415 - they need the models
