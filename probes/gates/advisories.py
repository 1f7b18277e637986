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
        for node in map(_Node.of, fleet.readings):
            if node.facts.version or node.reading.is_read:
                spoken.append(node)
            else:
                said_anything = True
                yield _silent(node.reading)
        for fault in group_faults(shelf.advisories):
            for one in _judge_fault(fault, spoken):
                said_anything = True
                yield one
        if not said_anything:
            engines = ", ".join(sorted({one.engine for one in fleet.readings})) or "no node"
            yield Skipped(check=KEY, reason=f"no advisory is known for {engines}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A reading with what conditions may ask of it, gathered once for all advisories."""

    reading: Reading
    package: str
    facts: Facts

    @classmethod
    def of(cls, reading: Reading) -> _Node:
        """Answer the node of a reading."""
        return cls(reading=reading, package=package_of(reading.engine), facts=facts_of(reading))


def _judge_fault(fault: Fault, nodes: Sequence[_Node]) -> Iterator[Check | Skipped]:
    verified = fault.verified
    for node in nodes:
        found = _findings(verified, node)
        if found:
            yield _check(fault, node, found)
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


def _findings(sources: Sequence[Advisory], node: _Node) -> list[tuple[Advisory, Finding]]:
    found = [(source, _find(source, node)) for source in sources]
    return [(source, one) for source, one in found if one is not None]


def _find(advisory: Advisory, node: _Node) -> Finding | None:
    return find(advisory, package=node.package, facts=node.facts)


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
        name.lower().replace("-", "_"): word
        for words in told
        for name, word in words.items()
        if word is not None
    }
    attested = {
        name.lower().replace("-", "_"): word.value
        for name in reading.attested
        if (word := reading.vouched(name)) is not None and word.value
    }
    return Facts(
        version=reading.version or attested.get("version"),
        shown=shown,
        attested=attested,
    )


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _check(fault: Fault, node: _Node, found: list[tuple[Advisory, Finding]]) -> Check:
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
    return Check(
        check=f"{KEY}.{fault.advisory_id}",
        target=reading.node,
        verdict=_VERDICTS[standing],
        kind=Kind.CONFIG,
        reason=_reason(
            fault, reading, source, worst, settled=settled if is_open else "", conflict=conflict
        ),
        required=False,
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


def _conflict(found: list[tuple[Advisory, Finding]]) -> str:
    """Answer what each source says where they do not say the same, or nothing."""
    if len({(one.standing is Standing.NOT_AFFECTED) for _, one in found}) == 1:
        return ""
    return "; ".join(f"{source.source}: {one.standing} ({one.why})" for source, one in found)


def _reason(  # noqa: PLR0913 - one sentence out of all that is known
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
        said = f"{reading.node}: {title}: {finding.why}; {settled} is attested, so it counts as "
        return f"{said}not affected"
    words = {
        Standing.AFFECTED: "holds",
        Standing.ASSUMED: "is taken to hold",
        Standing.UNKNOWN: "cannot be excluded",
        Standing.NOT_AFFECTED: "does not hold",
    }
    text = f"{reading.node}: {title} {words[finding.standing]}: {finding.why}"
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
