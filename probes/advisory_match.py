"""Holds the version and the facts of a node against what a source says is affected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from probes.advisory import (
    WORST_STANDING_FIRST,
    Advisory,
    Condition,
    Edge,
    Event,
    Facts,
    Finding,
    Scope,
    Standing,
    VersionRange,
)

#: Words in which engines, flags and people say that a switch is on or off.
_ON = frozenset({"true", "1", "yes", "on"})
_OFF = frozenset({"false", "0", "no", "off"})
_BUILD_COMMIT = re.compile(r"(?:^|[.+])g([0-9a-f]{7,40})(?:[.]|$)")
#: At one version, what ends a range is read before what opens the next one.
_ORDER = {Edge.FIXED: 0, Edge.LAST_AFFECTED: 1, Edge.INTRODUCED: 2}


def find(advisory: Advisory, *, package: str, facts: Facts) -> Finding | None:
    """Answer what a source means for a node, or None where it is not about its engine.

    Several scopes for one package add up: the worst of them counts.
    """
    scopes = [one for one in advisory.scopes if not one.package or one.package == package]
    found = [_find_in(scope, advisory, facts) for scope in scopes]
    return min(found, key=lambda one: WORST_STANDING_FIRST.index(one.standing), default=None)


def _find_in(scope: Scope, advisory: Advisory, facts: Facts) -> Finding:
    is_inside, why = is_affected_version(facts.version, scope, advisory.fix_commits)
    held = [(condition, holds(condition, facts)) for condition in scope.conditions]
    attested = tuple(
        condition.fact for condition in scope.conditions if _is_attested(condition.fact, facts)
    )
    against = next((condition for condition, value in held if value is False), None)
    if is_inside is False:
        return Finding(standing=Standing.NOT_AFFECTED, why=why)
    if against is not None:
        # Only this fact decides here, whatever else people vouched for.
        return Finding(
            standing=Standing.NOT_AFFECTED,
            why=f"it needs that {against.describe()}, which is not so",
            attested=tuple(one for one in attested if one == against.fact),
        )
    unknown = tuple(condition.fact for condition, value in held if value is None)
    if is_inside is None:
        return Finding(standing=Standing.UNKNOWN, why=why, unknown=("version", *unknown))
    if unknown:
        return Finding(
            standing=Standing.ASSUMED,
            why=f"{why}, and {', '.join(unknown)} is not known",
            unknown=unknown,
            attested=attested,
        )
    return Finding(standing=Standing.AFFECTED, why=why, attested=attested)


@lru_cache(maxsize=4096)
def is_affected_version(
    version: str | None, scope: Scope, fix_commits: tuple[str, ...] = ()
) -> tuple[bool | None, str]:
    """Answer whether a version is inside, None where nobody can say, and why in one phrase."""
    # Before the version is looked at: nothing that it says could lie outside.
    if any(one.is_everything for one in scope.ranges):
        return True, "every version is affected"
    if not version:
        return None, "its version is not known"
    if version in scope.versions:
        return True, f"{version} is listed as affected"
    commit = _BUILD_COMMIT.search(version)
    if commit and any(_is_same(commit.group(1), fix) for fix in fix_commits):
        return False, f"{version} is built from the commit of the fix"
    parsed, problem = place(version)
    return _by_order(parsed, scope) if parsed else (None, problem)


def _by_order(version: Version, scope: Scope) -> tuple[bool | None, str]:
    """Answer by the order of versions; ranges of commits count only where nothing else is told."""
    if any(_is_listed(version, one) for one in scope.versions):
        return True, f"{version} is listed as affected"
    ordered = [one for one in scope.ranges if one.is_ordered]
    ranges = "; ".join(one.describe() for one in ordered or scope.ranges)
    answers = [_is_in(version, one) for one in ordered]
    if any(answers):
        return True, f"{version} is affected ({ranges})"
    if None in answers or not (ordered or scope.versions):
        return None, f"{version} cannot be held against {ranges or 'a source without versions'}"
    return False, f"{version} is outside of what is affected ({ranges or 'single versions'})"


def place(version: str) -> tuple[Version | None, str]:
    """Answer a version that can be ordered, or None and why its number tells nothing."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return None, f"its version {version!r} cannot be read"
    if not any(parsed.release):
        return None, f"its version {version} is a placeholder"
    if parsed.is_devrelease:
        return None, (
            f"its version {version} is a development build: its number does not say which fixes "
            "are in it"
        )
    if parsed.epoch:
        return None, f"its version {version} carries an epoch and cannot be compared"
    return parsed, ""


def holds(condition: Condition, facts: Facts) -> bool | None:
    """Answer whether a condition holds of a node; None where its fact is not known."""
    word = _fact(condition.fact, facts)
    if word is None:
        return None
    if not condition.specifier:
        return _folded(word) in {_folded(one) for one in condition.wanted}
    try:
        return SpecifierSet(condition.specifier).contains(Version(word), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return None


def _fact(name: str, facts: Facts) -> str | None:
    """Answer what the engine shows, else what people vouch for."""
    for known in (facts.shown, facts.attested):
        for key in _spellings(name):
            if key in known:
                return known[key]
    return None


def _is_attested(name: str, facts: Facts) -> bool:
    keys = _spellings(name)
    return any(key in facts.attested for key in keys) and not any(
        key in facts.shown for key in keys
    )


@lru_cache(maxsize=1024)
def _spellings(name: str) -> tuple[str, ...]:
    """Answer the names under which an engine or a person may tell a fact."""
    plain = name.lower().replace("-", "_").replace(" ", "_")
    return plain, f"enable_{plain}", plain.removeprefix("enable_"), f"{plain}_version"


def _folded(word: str) -> str:
    plain = word.strip().lower()
    if plain in _ON:
        return "true"
    return "false" if plain in _OFF else plain


def _is_in(version: Version, one: VersionRange) -> bool | None:
    """Answer whether a version lies in a range, as OSV orders its events."""
    edges = list(_edges(one.events))
    if None in edges or not edges:
        return None
    is_inside = False
    known = [edge for edge in edges if edge is not None]
    for edge, at in sorted(known, key=lambda pair: (pair[1], _ORDER[pair[0]])):
        if edge is Edge.LAST_AFFECTED:
            is_inside = is_inside and not _comparable(version, at) > at
        elif _comparable(version, at) >= at:
            is_inside = edge is Edge.INTRODUCED
    return is_inside


def _edges(events: tuple[Event, ...]) -> Iterator[tuple[Edge, Version] | None]:
    """Answer the events with their versions read; None for one that cannot be."""
    for event in events:
        try:
            # "0" is OSV's word for: before every version, pre-releases of 0 included.
            word = "0.dev0" if event.version == "0" else event.version
            yield event.edge, Version(word)
        except InvalidVersion:
            yield None


def _comparable(version: Version, edge: Version) -> Version:
    """Answer the version without its build label, unless the source names one itself.

    0.26.0+cpu is 0.26.0 built by somebody, though it sorts above it.
    """
    return version if edge.local else Version(version.public)


def _is_listed(version: Version, listed: str) -> bool:
    try:
        at = Version(listed)
    except InvalidVersion:
        return False
    return _comparable(version, at) == at


def _is_same(built: str, fix: str) -> bool:
    """Answer whether two spellings of a commit are one; too short a one proves nothing."""
    shorter = min(len(built), len(fix))
    return shorter >= 7 and built[:shorter] == fix.lower()[:shorter]  # noqa: PLR2004 - git's own
