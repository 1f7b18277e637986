"""Typed readers of the environment; what differs between installations comes from here."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def read_text(name: str, default: str = "") -> str:
    """Answer a variable's text."""
    return os.environ.get(name, default).strip()


def read_bool(name: str, *, default: bool = False) -> bool:
    """Answer a variable as yes or no. Raises ImproperlyConfigured."""
    text = read_text(name).lower()
    if not text:
        return default
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be yes or no, not {text!r}")


def read_int(name: str, default: int) -> int:
    """Answer a variable as a whole number. Raises ImproperlyConfigured."""
    text = read_text(name)
    try:
        return int(text) if text else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {text!r}") from None


def read_list(name: str) -> list[str]:
    """Answer the comma-separated parts of a variable, without blanks."""
    return [part.strip() for part in read_text(name).split(",") if part.strip()]


def read_secret(name: str) -> str:
    """Answer a secret from the file that NAME_FILE points to, or from NAME itself.

    Raises ImproperlyConfigured where the file cannot be read.
    """
    file_name = read_text(f"{name}_FILE")
    if not file_name:
        return read_text(name)
    try:
        return Path(file_name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE cannot be read: {error.strerror}") from None
