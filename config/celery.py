"""Celery: carries wake-ups (ids only) to workers."""

from __future__ import annotations

import os

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("pagewarden")
app.conf.update(
    broker_url=settings.BROKER_URL,
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    # A lease, not the broker, keeps a task from running twice; a lost one comes back soon.
    broker_transport_options={
        "visibility_timeout": 60,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
    },
    # Events and remote control would be one more way into the worker; the rows tell its state.
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    task_serializer="json",
    accept_content=["json"],
)
app.autodiscover_tasks()
