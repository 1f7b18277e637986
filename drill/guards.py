"""Which guards of the engine stand against a refused request, by version order."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

RETIRES_FROM = Version("0.5.20")
"""Source: SGLang pull request 36988, first in the wheel 0.5.20."""

REFUSES_AT_DOOR_FROM = Version("0.5.21")
"""Source: SGLang pull request 38935, first in the wheel 0.5.21."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guards of one engine version."""

    retires_after_forward: bool
    refuses_at_door: bool


def guards_of(version: Version) -> Guards:
    """Answer the guards that stand in a version."""
    return Guards(
        retires_after_forward=version >= RETIRES_FROM,
        refuses_at_door=version >= REFUSES_AT_DOOR_FROM,
    )
