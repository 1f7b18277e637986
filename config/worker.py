"""Starts and stops the tick with the Celery worker, and tunes the worker for sweeps."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_process_init, worker_ready, worker_shutting_down
from django.conf import settings

from common.collecting import collect_rarely
from config.ticker import Ticker

_ticker = Ticker(every_s=settings.TICK_EVERY_S)


@worker_ready.connect
def start_ticker(**_kwargs: Any) -> None:  # noqa: ANN401 - Celery's signature
    """Start the tick once the worker takes work."""
    collect_rarely()
    _ticker.start()


@worker_process_init.connect
def tune_process(**_kwargs: Any) -> None:  # noqa: ANN401 - Celery's signature
    """Tune a process of a pool of processes, which does the work then."""
    collect_rarely()


@worker_shutting_down.connect
def stop_ticker(**_kwargs: Any) -> None:  # noqa: ANN401 - Celery's signature
    """Stop the tick before the worker leaves."""
    _ticker.stop()
