"""The one clock, so that tests can hold time."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Answer the present moment, aware, in UTC."""
    return datetime.now(UTC)
