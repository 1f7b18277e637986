"""Which guards stand against the faults that the drill plays: by version, and as switched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from packaging.version import Version

RETIRES_FROM = Version("0.5.20")
"""Source: SGLang pull request 36988, first in the wheel 0.5.20."""

REFUSES_AT_DOOR_FROM = Version("0.5.21")
"""Source: SGLang pull request 38935, first in the wheel 0.5.21."""

DEFERS_RELEASE_FROM = Version("0.5.21")
"""Source: SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE, on in the wheel 0.5.21 (Mooncake)."""


class Guard(StrEnum):
    """A guard by the name that the command line and the control endpoint take."""

    DOOR = "door"
    RETIRE = "retire"
    DEFERRED_RELEASE = "deferred-release"
    CHECKSUM = "checksum"
    PAGE_TAGS = "page-tags"
    SALT = "salt"
    TIER_KEY = "tier-key"
    TENANT_KEY = "tenant-key"


GUARD_WORDS: Final = {
    Guard.DOOR: "a refused request ends before anything is reserved",
    Guard.RETIRE: "prefill ends a refused request after its forward pass and sends nothing",
    Guard.DEFERRED_RELEASE: "pages are held until no transfer and no copy uses them any more",
    Guard.CHECKSUM: "decode compares what arrived with what prefill computed, before it admits",
    Guard.PAGE_TAGS: "each page carries the mark of its writer, looked at by every read",
    Guard.SALT: "the prefix cache shares pages between requests of one cache_salt only",
    Guard.TIER_KEY: "a page on disk is found by its whole key only: salt, layout and content",
    Guard.TENANT_KEY: "the gateway answers from its cache only the tenant that asked before",
}

_FIELDS: Final = {
    Guard.DOOR: "refuses_at_door",
    Guard.RETIRE: "retires_after_forward",
    Guard.DEFERRED_RELEASE: "defers_release",
    Guard.CHECKSUM: "sums_transfers",
    Guard.PAGE_TAGS: "tags_pages",
    Guard.SALT: "salts_keys",
    Guard.TIER_KEY: "has_whole_tier_keys",
    Guard.TENANT_KEY: "keys_by_tenant",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guards of one node."""

    refuses_at_door: bool
    retires_after_forward: bool
    defers_release: bool = False
    sums_transfers: bool = False
    tags_pages: bool = False
    salts_keys: bool = True
    has_whole_tier_keys: bool = True
    keys_by_tenant: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Answer the names of the guards that stand, in the order of the table."""
        return tuple(str(guard) for guard in Guard if getattr(self, _FIELDS[guard]))


def guards_of(version: Version) -> Guards:
    """Answer the guards that stand in a version by its defaults."""
    return Guards(
        retires_after_forward=version >= RETIRES_FROM,
        refuses_at_door=version >= REFUSES_AT_DOOR_FROM,
        defers_release=version >= DEFERS_RELEASE_FROM,
    )


class GuardSwitches:
    """The guards that were switched on or off by hand, whatever a version has of its own.

    One for a cluster; a change holds from the next read, write or release on.
    """

    def __init__(self, wanted: Mapping[Guard, bool] | None = None) -> None:
        self._wanted = dict(wanted or {})
        self._known: dict[Version, Guards] = {}

    @property
    def wanted(self) -> Mapping[Guard, bool]:
        """Answer what was switched by hand."""
        return dict(self._wanted)

    def switch(self, wanted: Mapping[Guard, bool]) -> None:
        """Switch guards on and off; the others stay."""
        self._wanted |= wanted
        self._known.clear()

    def of(self, version: Version) -> Guards:
        """Answer the guards of a node of this version."""
        known = self._known.get(version)
        if known is None:
            fields = {_FIELDS[guard]: on for guard, on in self._wanted.items()}
            known = self._known[version] = replace(guards_of(version), **fields)
        return known


def switched(names: Iterable[str], *, on: bool) -> dict[Guard, bool]:
    """Answer the switches of guards by name. Raises ValueError for a name that is none."""
    return {Guard(name): on for name in names}
