"""The ground floor: knows no word of the trade."""

from __future__ import annotations

from django.apps import AppConfig


class CommonConfig(AppConfig):
    """Registers the system checks of our own settings."""

    name = "common"

    def ready(self) -> None:
        """Import the checks, whose decorators register them."""
        from common import checks  # noqa: F401, PLC0415 - Django wants the app registry first
