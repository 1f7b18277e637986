"""What is true of the fleet."""

from __future__ import annotations

from django.apps import AppConfig

from common.registry import load_plugins


class ProbesConfig(AppConfig):
    """Loads the gates and canary plans."""

    name = "probes"

    def ready(self) -> None:
        """Import every gate, plan, the sweep, and what this floor tells the one below."""
        load_plugins("probes.gates")
        load_plugins("probes.plans")
        from probes import (  # noqa: PLC0415 - they need the models
            plan_costs,  # noqa: F401
            retire_objection,  # noqa: F401
            sweeps,  # noqa: F401
        )
