"""Gate: no known advisory of this fault class holds for a node."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.advisory import (
    WORST_STANDING_FIRST,
    Advisory,
    BadFile,
    Facts,
    Fault,
    Finding,
    Shelf,
    Standing,
    group_faults,
)
from probes.advisory_files import BUILT_IN, FOLDER_VARIABLE, package_of, read_folder
from probes.advisory_match import find
from probes.contract import GATES
from probes.doubts import doubt_about
from probes.judgement import Check, Figure, Kind, Skipped

KEY = "advisories"
#: What a person vouches for under this name settles an advisory that cannot be placed.
ATTESTED_PREFIX = "advisory."
_MODES = {Role.PREFILL: "prefill", Role.DECODE: "decode", Role.UNIFIED: "null"}
#: What a finding rests on where nobody vouches for anything.
_Known = tuple[object, ...]
_Findings = list[tuple[Advisory, Finding]]
_MOST_SEEN = 256
_SETTLED = frozenset({"fixed", "not_affected", "not affected"})
_VERDICTS = {
    Standing.AFFECTED: Verdict.FAIL,
    Standing.ASSUMED: Verdict.INCONCLUSIVE,
    Standing.UNKNOWN: Verdict.INCONCLUSIVE,
    Standing.NOT_AFFECTED: Verdict.PASS,
}


@lru_cache(maxsize=1)
def built_in() -> Shelf:
    """Answer the advisories that come with the product, read once."""
    return read_folder(BUILT_IN)


def known_here() -> Shelf:
    """Answer what comes with the product and what the operator's folder holds, read afresh."""
    folder = os.environ.get(FOLDER_VARIABLE, "")
    return built_in() + read_folder(Path(folder)) if folder else built_in()


@GATES.register(KEY)
class Advisories:
    """Holds every node against every advisory for its engine; each is a check of its own.

    Source: OSV records under probes/advisories, the operator's folder (PAGEWARDEN_ADVISORIES,
    ``--advisories``), and the list ``advisories`` of a capture; docs/adr/0012.
    """

    title = "No advisory holds"
    kind = Kind.CONFIG

    def __init__(self, extra: Shelf | None = None) -> None:
        self._extra = extra or Shelf()

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a node and advisory; what nobody vouches for is only told."""
        shelf = known_here() + self._extra
        yield from (_bad_file(one) for one in shelf.bad)
        said_anything = bool(shelf.bad)
        spoken = []
        library = library_of(shelf.advisories)
        for node in map(library.node_of, fleet.readings):
            if node.facts.version or node.reading.is_read:
                spoken.append(node)
            else:
                said_anything = True
                yield _silent(node.reading)
        for number in range(len(library.faults)):
            for one in _judge_fault(library, number, spoken):
                said_anything = True
                yield one
        if not said_anything:
            engines = ", ".join(sorted({one.engine for one in fleet.readings})) or "no node"
            yield Skipped(check=KEY, reason=f"no advisory is known for {engines}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A reading with what conditions may ask of it, gathered once for all advisories."""

    reading: Reading
    known: _Seen

    @property
    def facts(self) -> Facts:
        """Answer what conditions may ask of it."""
        return self.known.facts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Facts, with what was found to be said of a node that shows them, by number of the fault."""

    package: str
    facts: Facts
    said: dict[int, _Said | None]

    @classmethod
    def of(cls, reading: Reading) -> _Seen:
        """Answer the facts of a reading, of which nothing was said yet."""
        return cls(package=package_of(reading.engine), facts=facts_of(reading), said={})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What is told of a fault and a node; ``text`` does not name the node."""

    verdict: Verdict
    text: str
    figures: Mapping[str, Figure]


class Library:
    """Faults, and what each was found to mean for facts that were seen before.

    Most nodes of a fleet show the same facts, and no finding rests on anything else.
    """

    def __init__(self, advisories: tuple[Advisory, ...]) -> None:
        self.faults = group_faults(advisories)
        self._seen: dict[_Known, _Seen] = {}

    def node_of(self, reading: Reading) -> _Node:
        """Answer the node of a reading, with what was said of others that show the same.

        What people vouch for has a name and an expiry beside it, so it is looked at each time.
        """
        if reading.attested:
            return _Node(reading=reading, known=_Seen.of(reading))
        known_by = _known_by(reading)
        known = self._seen.get(known_by)
        if known is None:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            known = self._seen[known_by] = _Seen.of(reading)
        return _Node(reading=reading, known=known)

    def said_of(self, number: int, node: _Node) -> _Said | None:
        """Answer what a fault's verified sources mean for a node, None where they mean another."""
        said = node.known.said
        if number not in said:
            said[number] = self._look(number, node)
        return said[number]

    def _look(self, number: int, node: _Node) -> _Said | None:
        fault = self.faults[number]
        found = _findings(fault.verified, node)
        return _say(fault, node, found) if found else None


def library_of(advisories: tuple[Advisory, ...]) -> Library:
    """Answer the library of these advisories; that of the built-in ones is made once."""
    return _library_built_in() if advisories == built_in().advisories else Library(advisories)


@lru_cache(maxsize=1)
def _library_built_in() -> Library:
    return Library(built_in().advisories)


def _judge_fault(
    library: Library, number: int, nodes: Sequence[_Node]
) -> Iterator[Check | Skipped]:
    fault = library.faults[number]
    for node in nodes:
        said = library.said_of(number, node)
        if said is not None:
            yield Check(
                check=f"{KEY}.{fault.advisory_id}",
                target=node.reading.node,
                verdict=said.verdict,
                kind=Kind.CONFIG,
                reason=f"{node.reading.node}: {said.text}",
                required=False,
                figures=said.figures,
            )
    for source in fault.sources:
        if source.is_verified:
            continue
        if any(_find(source, node) for node in nodes):
            yield Skipped(
                check=f"{KEY}.{fault.advisory_id}",
                reason=(
                    f"UNVERIFIED_SOURCE: only {source.source} tells of it, and neither the vendor "
                    "nor a fix vouches for it; it is listed as information and decides nothing"
                ),
            )


def _findings(sources: Sequence[Advisory], node: _Node) -> _Findings:
    found = [(source, _find(source, node)) for source in sources]
    return [(source, one) for source, one in found if one is not None]


def _find(advisory: Advisory, node: _Node) -> Finding | None:
    return find(advisory, package=node.known.package, facts=node.facts)


def _known_by(reading: Reading) -> _Known:
    """Answer all that ``facts_of`` and a sentence look at where nobody vouches for anything."""
    return (
        reading.engine,
        reading.reported_role,
        reading.version,
        reading.page_size,
        reading.allow_auto_truncate,
        reading.transfer_backend,
        reading.model,
        tuple(reading.layout.items()),
        tuple(reading.parallel.items()),
        tuple(reading.flags.items()),
    )


def facts_of(reading: Reading) -> Facts:
    """Answer what conditions may ask of a node; the engine's own word stands before an attested."""
    role = reading.reported_role
    told: list[Mapping[str, str | None]] = [
        {
            "role": None if role is None else str(role),
            "disaggregation_mode": None if role is None else _MODES[role],
            "page_size": _word(reading.page_size),
            "allow_auto_truncate": _word(reading.allow_auto_truncate),
            # A node that hands nothing on uses no back end, whatever its default is called.
            "transfer_backend": "none" if role is Role.UNIFIED else reading.transfer_backend,
            "model": reading.model,
        },
        *(reading.layout, reading.parallel, reading.flags),
    ]
    shown = {
        _plain(name): word for words in told for name, word in words.items() if word is not None
    }
    attested = {
        _plain(name): word.value
        for name in reading.attested
        if (word := reading.vouched(name)) is not None and word.value
    }
    return Facts(
        version=reading.version or attested.get("version"),
        shown=shown,
        attested=attested,
    )


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _say(fault: Fault, node: _Node, found: _Findings) -> _Said:
    """Answer the worst that any source says: where sources differ, the union counts."""
    source, worst = min(found, key=lambda pair: WORST_STANDING_FIRST.index(pair[1].standing))
    reading, standing = node.reading, worst.standing
    settled = _settled_by(fault, reading)
    is_open = standing in {Standing.ASSUMED, Standing.UNKNOWN}
    if settled and is_open:
        standing = Standing.NOT_AFFECTED
    figures: dict[str, Figure] = {
        "standing": str(standing),
        "version": node.facts.version,
        "fixed_in": ", ".join(_fixes(fault)) or None,
        "sources": "; ".join(dict.fromkeys(one.source for one, _ in found)),
    }
    if worst.unknown and standing is not Standing.NOT_AFFECTED:
        figures["unknown"] = ", ".join(worst.unknown)
    conflict = _conflict(found)
    if conflict:
        figures["conflict"] = conflict
    return _Said(
        verdict=_VERDICTS[standing],
        text=_text(
            fault, reading, source, worst, settled=settled if is_open else "", conflict=conflict
        ),
        figures=figures,
    )


def _fixes(fault: Fault) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fix for source in fault.verified for fix in source.fixed_in))


def _settled_by(fault: Fault, reading: Reading) -> str:
    """Answer the attested name that settles this advisory, or nothing."""
    names = {name for source in fault.sources for name in source.names}
    wanted = {f"{ATTESTED_PREFIX}{name.lower()}" for name in names}
    for name in reading.attested:
        word = reading.vouched(name)
        if name.lower() in wanted and word and word.value.strip().lower() in _SETTLED:
            return f"{name} by {word.by}" if word.by else name
    return ""


def _conflict(found: _Findings) -> str:
    """Answer what each source says where they do not say the same, or nothing."""
    if len({(one.standing is Standing.NOT_AFFECTED) for _, one in found}) == 1:
        return ""
    return "; ".join(f"{source.source}: {one.standing} ({one.why})" for source, one in found)


def _text(  # noqa: PLR0913 - one sentence out of all that is known
    fault: Fault,
    reading: Reading,
    source: Advisory,
    finding: Finding,
    *,
    settled: str,
    conflict: str,
) -> str:
    title = f"{fault.advisory_id} ({source.summary or 'no summary'})"
    if settled:
        return f"{title}: {finding.why}; {settled} is attested, so it counts as not affected"
    words = {
        Standing.AFFECTED: "holds",
        Standing.ASSUMED: "is taken to hold",
        Standing.UNKNOWN: "cannot be excluded",
        Standing.NOT_AFFECTED: "does not hold",
    }
    text = f"{title} {words[finding.standing]}: {finding.why}"
    if finding.standing is Standing.AFFECTED:
        fixes = " or ".join(_fixes(fault)) if not conflict else ""
        text += f"; upgrade to {fixes} or later" if fixes else "; no fix is known to end it"
    elif finding.unknown:
        text += (
            f"; attest {', '.join(finding.unknown)}, or {ATTESTED_PREFIX}{fault.advisory_id} as "
            "fixed or not_affected"
        )
    attested = finding.attested if reading.version else ("version", *finding.attested)
    if attested and "version" not in finding.unknown:
        text += f" (rests on what is attested: {', '.join(attested)})"
    return f"{text}; sources differ, so the wider one counts: {conflict}" if conflict else text


def _silent(reading: Reading) -> Check:
    return Check(
        check=KEY,
        target=reading.node,
        verdict=Verdict.INCONCLUSIVE,
        kind=Kind.CONFIG,
        reason=doubt_about(reading),
        required=False,
    )


def _bad_file(bad: BadFile) -> Check:
    return Check(
        check=KEY,
        target=bad.name,
        verdict=Verdict.INCONCLUSIVE,
        kind=Kind.CONFIG,
        reason=f"the advisory file {bad.name} cannot be used: {bad.problem}; correct or remove it",
        required=False,
    )
