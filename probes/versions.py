"""Which guards stand in which version of an engine, and how a version is placed in that table.

Source: the released wheels of sglang 0.5.5 and 0.5.19 to 0.5.23, and those of them that were run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

#: First release that ends a refused request before anything is allocated.
SAFE_SINCE: Mapping[str, str] = {"sglang": "0.5.21"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a version stands: its guards, or None and why not; ``note`` where it inherits a row."""

    guards: Guards | None
    problem: str = ""
    note: str = ""


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
