"""Which guards stand in which version of an engine, and how a version is placed in that table.

Source: the released wheels of sglang 0.5.5 and 0.5.19 to 0.5.23, and those of them that were run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from packaging.version import InvalidVersion, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """What stands between a refused prompt and another tenant's pages, from this release on.

    ``retires_after_forward``: prefill retires the refused request after its forward pass and
    transfers nothing (upstream change 36988). ``refuses_at_the_door``: a refused request never
    enters an admission queue (upstream change 38935).
    """

    since: str
    retires_after_forward: bool
    refuses_at_the_door: bool

    @property
    def close_exposure(self) -> bool:
        """Answer whether a prompt that prefill refuses can no longer be answered by decode."""
        return self.retires_after_forward or self.refuses_at_the_door


#: By engine, oldest first. A release between two rows has the guards of the row below it.
#: SGLang 0.5.19: seen leaking. 0.5.20: 36988 is in the wheel, 38935 is not. 0.5.21: both are.
GUARDS: Mapping[str, tuple[Guards, ...]] = {
    "sglang": (
        Guards(since="0", retires_after_forward=False, refuses_at_the_door=False),
        Guards(since="0.5.20", retires_after_forward=True, refuses_at_the_door=False),
        Guards(since="0.5.21", retires_after_forward=True, refuses_at_the_door=True),
    ),
}

#: The newest release whose wheel was read; above it a row is inherited, and the answer says so.
LAST_KNOWN: Mapping[str, str] = {"sglang": "0.5.23"}

#: First release of SGLang that knows --disaggregation-enable-kv-checksum (upstream change 39500).
CHECKSUM_SINCE = "0.5.21"

#: First releases whose wheels are known to heed SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES.
BATCH_LIMIT_SINCE = "0.5.22"


class Release(StrEnum):
    """What becomes of pages whose transfer failed, where nobody sets the environment."""

    DEFERRED = "held until no write can land"
    OPTIONAL = "released at once unless the environment says otherwise"
    AT_ONCE = "released at once, whatever is set"


#: By SGLang release, oldest first, then by transfer back end: what stands in the released wheels.
#: 0.5.19 and 0.5.20 have no capability gate; with MORI the setting would only time out.
DEFERRED_RELEASE: Mapping[str, Mapping[str, Release]] = {
    "0": dict.fromkeys(("mooncake", "ascend", "nixl", "mori", "fake"), Release.AT_ONCE),
    "0.5.19": {
        **dict.fromkeys(("mooncake", "ascend", "nixl"), Release.OPTIONAL),
        **dict.fromkeys(("mori", "fake"), Release.AT_ONCE),
    },
    "0.5.21": {
        **dict.fromkeys(("mooncake", "ascend", "nixl"), Release.DEFERRED),
        **dict.fromkeys(("mori", "fake"), Release.AT_ONCE),
    },
    "0.5.22": {
        **dict.fromkeys(("mooncake", "ascend", "nixl", "mori"), Release.DEFERRED),
        "fake": Release.AT_ONCE,
    },
}

#: First release in which a back end holds such pages by default.
DEFERRED_SINCE: Mapping[str, str] = {
    "mooncake": "0.5.21",
    "ascend": "0.5.21",
    "nixl": "0.5.21",
    "mori": "0.5.22",
}


def back_end_family(back_end: str) -> str:
    """Answer the family a transfer back end belongs to: mooncake_tcp and mooncake are one."""
    return re.split(r"[_\W]", back_end.lower(), maxsplit=1)[0]


@lru_cache(maxsize=1024)
def release_default(version: str, back_end: str) -> Release | None:
    """Answer what a placed SGLang version does with this back end; None where none is known."""
    parsed = Version(version)
    rows = [row for since, row in DEFERRED_RELEASE.items() if parsed >= Version(since)]
    return rows[-1].get(back_end_family(back_end))


@lru_cache(maxsize=1024)
def is_since(version: str, since: str) -> bool:
    """Answer whether a placed version is this release or a later one."""
    return Version(version) >= Version(since)


#: First release that ends a refused request before anything is allocated.
SAFE_SINCE: Mapping[str, str] = {"sglang": "0.5.21"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a version stands: its guards, or None and why not; ``note`` where it inherits a row."""

    guards: Guards | None
    problem: str = ""
    note: str = ""


@lru_cache(maxsize=1024)
def place_version(engine: str, version: str | None) -> Placement:
    """Answer which guards stand in this version of this engine; unknown is an answer."""
    rows = GUARDS.get(engine)
    if rows is None:
        return Placement(guards=None, problem=f"no table of guards is known for {engine}")
    if not version:
        return Placement(guards=None, problem="it does not say its version")
    try:
        parsed = Version(version)
    except InvalidVersion:
        return Placement(guards=None, problem=f"its version {version!r} cannot be read")
    problem = _unplaceable(parsed)
    if problem:
        return Placement(guards=None, problem=f"its version {version} {problem}")
    guards = next(row for row in reversed(rows) if parsed >= Version(row.since))
    last = LAST_KNOWN[engine]
    note = ""
    if parsed > Version(last):
        note = f"{version} is newer than the last release read ({last}) and is taken to be like it"
    return Placement(guards=guards, note=note)


def _unplaceable(version: Version) -> str:
    """Answer why the number alone does not tell the contents, or nothing where it does."""
    if version.local:
        return "is a local build: its number does not say what is in it"
    if version.is_prerelease:
        # packaging counts development releases among these too.
        return "is no final release: its number does not say what is in it"
    if version.epoch:
        return "carries an epoch: its number cannot be compared"
    return ""
