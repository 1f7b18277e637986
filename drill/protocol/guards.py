"""The guards that the protocol can stand under: by name, and as an engine version has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import Version

from drill.guards import GUARD_WORDS as DRILL_WORDS
from drill.guards import Guard, guards_of
from drill.settings import WrongFigure

BOUNDED_TRANSFER = "bounded-transfer"
"""The model's own: the drill lets every write land within the time of its deferral."""

GUARD_WORDS = {
    str(Guard.DOOR): DRILL_WORDS[Guard.DOOR],
    str(Guard.RETIRE): DRILL_WORDS[Guard.RETIRE],
    str(Guard.DEFERRED_RELEASE): DRILL_WORDS[Guard.DEFERRED_RELEASE] + "; 30 s at the longest",
    BOUNDED_TRANSFER: "no transfer outlasts the time for which its pages are held",
    str(Guard.CHECKSUM): DRILL_WORDS[Guard.CHECKSUM],
    str(Guard.PAGE_TAGS): DRILL_WORDS[Guard.PAGE_TAGS],
}
"""What each guard does, by the name that the command line takes."""

LEVERS = {
    str(Guard.DOOR): "engine 0.5.21 or later",
    str(Guard.RETIRE): "engine 0.5.20 or later",
    str(Guard.DEFERRED_RELEASE): "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE=1",
    BOUNDED_TRANSFER: "SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES above 0",
    str(Guard.CHECKSUM): "--disaggregation-enable-kv-checksum on both sides, from 0.5.21",
    str(Guard.PAGE_TAGS): "in no engine yet",
}
"""How a guard is had on a real engine. Source: the wheels of 0.5.19 to 0.5.23."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolGuards:
    """Which guards stand; without any it is the protocol of 0.5.19."""

    door: bool = False
    retire: bool = False
    deferred_release: bool = False
    bounded_transfer: bool = False
    checksum: bool = False
    page_tags: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Answer the names of the guards that stand, in the order of the table."""
        return tuple(name for name in GUARD_WORDS if getattr(self, _field(name)))


def guards_named(names: Iterable[str]) -> ProtocolGuards:
    """Answer the guards of these names. Raises WrongFigure."""
    asked = list(names)
    unknown = [name for name in asked if name not in GUARD_WORDS]
    if unknown:
        known = ", ".join(GUARD_WORDS)
        raise WrongFigure(f"no guard is called {unknown[0]!r}; there are: {known}")
    return ProtocolGuards(**{_field(name): True for name in asked})


def with_guard(guards: ProtocolGuards, name: str) -> ProtocolGuards:
    """Answer the guards with one more. Raises WrongFigure."""
    return guards_named([*guards.names, name])


def guards_of_version(version: Version) -> ProtocolGuards:
    """Answer the guards that stand in an engine version by its defaults, as the drill has them.

    Transfers are unbounded by default in every wheel up to 0.5.23.
    """
    engine = guards_of(version)
    return ProtocolGuards(
        door=engine.refuses_at_door,
        retire=engine.retires_after_forward,
        deferred_release=engine.defers_release,
        checksum=engine.sums_transfers,
        page_tags=engine.tags_pages,
    )


def _field(name: str) -> str:
    return name.replace("-", "_")
