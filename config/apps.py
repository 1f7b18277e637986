"""Assembly as an app: makes every Django process know the Celery app and the worker's tick."""

from __future__ import annotations

from django.apps import AppConfig


class AssemblyConfig(AppConfig):
    """Comes last in INSTALLED_APPS, when all models are there."""

    name = "config"

    def ready(self) -> None:
        """Load the Celery app and connect the worker's signals."""
        from config import celery, worker  # noqa: F401, PLC0415 - they need the app registry
