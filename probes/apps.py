"""What is true of the fleet."""

from __future__ import annotations

from django.apps import AppConfig

from common.registry import load_plugins


class ProbesConfig(AppConfig):
    """Loads the gates and canary plans."""

    name = "probes"

    def ready(self) -> None:
        """Import every gate, plan and the sweep."""
        load_plugins("probes.gates")
        load_plugins("probes.plans")
        from probes import sweeps  # noqa: F401, PLC0415 - it needs the models
