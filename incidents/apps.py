"""What is wrong, since when, who holds it."""

from __future__ import annotations

from django.apps import AppConfig

from common.registry import load_plugins


class IncidentsConfig(AppConfig):
    """Loads the exporters and the sweep that pulls findings."""

    name = "incidents"

    def ready(self) -> None:
        """Import every exporter and the sweep."""
        load_plugins("incidents.exporters")
        from incidents import sweeps  # noqa: F401, PLC0415 - it needs the models
