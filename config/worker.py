"""Starts and stops the tick with the Celery worker."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings

from config.ticker import Ticker

_ticker = Ticker(every_s=settings.TICK_EVERY_S)


@worker_ready.connect
def start_ticker(**_kwargs: Any) -> None:  # noqa: ANN401 - Celery's signature
    """Start the tick once the worker takes work."""
    _ticker.start()


@worker_shutting_down.connect
def stop_ticker(**_kwargs: Any) -> None:  # noqa: ANN401 - Celery's signature
    """Stop the tick before the worker leaves."""
    _ticker.stop()
