"""An advisory as sources tell it, and how three values add up where a condition is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Standing(StrEnum):
    """What an advisory means for one node, worst first.

    ``assumed``: the version is in the range, and a condition is not known. ``unknown``: the version
    cannot be placed. Both count as affected until somebody resolves them.
    """

    AFFECTED = "AFFECTED"
    ASSUMED = "AFFECTED_ASSUMED"
    UNKNOWN = "UNKNOWN"
    NOT_AFFECTED = "NOT_AFFECTED"


WORST_STANDING_FIRST = tuple(Standing)


class Edge(StrEnum):
    """What an event of a range says (OSV 1.7, ``affected[].ranges[].events[]``)."""

    INTRODUCED = "introduced"
    FIXED = "fixed"
    LAST_AFFECTED = "last_affected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One edge of a range, with the version as it was written."""

    edge: Edge
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """Versions from each ``introduced`` to the next ``fixed``; without one, for ever.

    ``is_ordered`` is false for ranges of commits, which no version number can be held against.
    """

    events: tuple[Event, ...]
    is_ordered: bool = True

    @property
    def is_everything(self) -> bool:
        """Answer whether no version lies outside of it."""
        return self.is_ordered and all(
            event.edge is Edge.INTRODUCED and event.version == "0" for event in self.events
        )

    def describe(self) -> str:
        """Answer the range in one phrase."""
        if not self.is_ordered:
            return "a range of commits"
        if self.is_everything:
            return "every version"
        words = {Edge.INTRODUCED: "from", Edge.FIXED: "before", Edge.LAST_AFFECTED: "up to"}
        shown = [
            f"{words[event.edge]} {event.version}"
            for event in self.events
            if (event.edge, event.version) != (Edge.INTRODUCED, "0")
        ]
        return " ".join(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that must hold of a node besides its version.

    ``wanted`` holds words of which one must be the node's own, or is empty where ``specifier``
    ("python >= 3.12") compares a version instead.
    """

    fact: str
    wanted: tuple[str, ...] = ()
    specifier: str = ""

    def describe(self) -> str:
        """Answer the condition in one phrase."""
        return (
            f"{self.fact} {self.specifier}"
            if self.specifier
            else (f"{self.fact} is {' or '.join(self.wanted)}")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one source says is affected. ``package`` is empty where it names none: then all."""

    package: str = ""
    ranges: tuple[VersionRange, ...] = ()
    versions: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """One source's word on one fault. ``origin`` is the file, ``source`` who says it.

    ``is_verified`` is false where nobody but an article vouches for it: then it is information.
    ``fix_commits`` are commits that hold the fix, in hex.
    """

    advisory_id: str
    origin: str
    source: str
    summary: str = ""
    aliases: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    is_verified: bool = True
    fix_commits: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Answer every name that this fault goes by."""
        return frozenset((self.advisory_id, *self.aliases))

    @property
    def fixed_in(self) -> tuple[str, ...]:
        """Answer the versions that end its ranges, in the order of the source."""
        found = [
            event.version
            for scope in self.scopes
            for one in scope.ranges
            for event in one.events
            if event.edge is Edge.FIXED and one.is_ordered
        ]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault with every source that tells of it. Two sources that differ are both kept."""

    advisory_id: str
    sources: tuple[Advisory, ...]

    @property
    def verified(self) -> tuple[Advisory, ...]:
        """Answer the sources that may decide something."""
        return tuple(one for one in self.sources if one.is_verified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one source means for one node, and why, in one phrase each."""

    standing: Standing
    why: str
    unknown: tuple[str, ...] = ()
    attested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BadFile:
    """An advisory file that cannot be used, and why."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """All advisories that are known here, and the files that could not be used."""

    advisories: tuple[Advisory, ...] = ()
    bad: tuple[BadFile, ...] = ()

    def __add__(self, other: Shelf) -> Shelf:
        """Answer both shelves as one."""
        return Shelf(advisories=self.advisories + other.advisories, bad=self.bad + other.bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one node: shown by its engine, and vouched for by people."""

    version: str | None
    shown: Mapping[str, str] = field(default_factory=dict)
    attested: Mapping[str, str] = field(default_factory=dict)


def group_faults(advisories: tuple[Advisory, ...]) -> tuple[Fault, ...]:
    """Answer one fault for all sources that share a name, in the order of their first source."""
    groups: list[tuple[set[str], list[Advisory]]] = []
    for advisory in advisories:
        names, members = set(advisory.names), [advisory]
        apart = []
        for known, others in groups:
            if known & names:
                names |= known
                members = others + members
            else:
                apart.append((known, others))
        groups = [*apart, (names, members)]
    return tuple(
        Fault(advisory_id=members[0].advisory_id, sources=tuple(members)) for _, members in groups
    )
