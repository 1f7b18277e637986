"""System checks of our own settings: a wrong one stops the start with a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register


@register()
def check_secret_key(
    app_configs: Sequence[AppConfig] | None,  # noqa: ARG001 - Django's signature
    **_kwargs: Any,  # noqa: ANN401 - Django's signature
) -> list[CheckMessage]:
    """Answer an error where the installation has no secret key of its own."""
    if settings.SECRET_KEY != "unset":  # noqa: S105 - the mark of a missing key
        return []
    return [
        Error(
            "no secret key is set",
            hint="set PAGEWARDEN_SECRET_KEY_FILE; ./pagewarden up does it by itself",
            id="common.E001",
        )
    ]


@register()
def check_sealing_key(
    app_configs: Sequence[AppConfig] | None,  # noqa: ARG001 - Django's signature
    **_kwargs: Any,  # noqa: ANN401 - Django's signature
) -> list[CheckMessage]:
    """Answer an error where keys and answers could not be sealed."""
    if settings.SEALING_KEY_FILE and Path(settings.SEALING_KEY_FILE).is_file():
        return []
    return [
        Error(
            "the sealing key file is missing",
            hint="set PAGEWARDEN_SEALING_KEY_FILE to a file of 32 random bytes in base64",
            id="common.E002",
        )
    ]


@register()
def check_utc(
    app_configs: Sequence[AppConfig] | None,  # noqa: ARG001 - Django's signature
    **_kwargs: Any,  # noqa: ANN401 - Django's signature
) -> list[CheckMessage]:
    """Answer an error where the clock of the process is not UTC."""
    if settings.TIME_ZONE == "UTC" and settings.USE_TZ:
        return []
    return [Error("the time zone is not UTC", hint="leave TIME_ZONE alone", id="common.E003")]
