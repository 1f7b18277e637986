"""What runs where."""

from __future__ import annotations

from django.apps import AppConfig

from common.registry import load_plugins


class FleetConfig(AppConfig):
    """Loads the engine and router adapters."""

    name = "fleet"

    def ready(self) -> None:
        """Import every adapter."""
        load_plugins("fleet.engines")
        load_plugins("fleet.routers")
