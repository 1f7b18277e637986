"""What an exploration says to a person and to a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from drill.protocol.explore import Exploration, Trace, explore
from drill.protocol.findings import FINDING_WORDS, Finding
from drill.protocol.guards import GUARD_WORDS, LEVERS, ProtocolGuards, with_guard
from drill.protocol.state import EQUAL, INCIDENT, UNEQUAL, Setup
from drill.protocol.words import before, lines, pages_of, rest


class Limits(StrEnum):
    """Whether prefill and decode refuse the same lengths."""

    UNEQUAL = "unequal"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A shortest trace, the bounds under which it was found, and which guard alone closes it."""

    trace: Trace
    setup: Setup
    cures: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Answer the trace in lines that are read from top to bottom."""
        trace = self.trace
        rows = [f"  before   {before(trace)}"]
        told = lines(trace, self.setup)
        rows += [f"  {n:>2} {one.actor:<8} {one.text}" for n, one in enumerate(told, start=1)]
        end = rest(trace, self.setup)
        if end:
            rows.append(f"  then     {end}")
        if trace.finding.is_foreign_read:
            cures = [f"{name} ({LEVERS[name]})" for name in self.cures]
            rows.append(f"  closed by one more guard: {'; '.join(cures) or 'none; see --compare'}")
        return "\n".join([f"{trace.finding}: {FINDING_WORDS[trace.finding]}", *rows])

    def as_json(self) -> dict[str, Any]:
        """Answer the trace for a program."""
        return {
            "finding": str(self.trace.finding),
            "means": FINDING_WORDS[self.trace.finding],
            "is_foreign_read": self.trace.finding.is_foreign_read,
            "before": before(self.trace),
            "steps": [
                {"actor": one.actor, "move": one.kind, "text": one.text}
                for one in lines(self.trace, self.setup)
            ],
            "then": rest(self.trace, self.setup),
            "closed_by_adding": list(self.cures),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that is reachable under one set of guards."""

    guards: ProtocolGuards
    version: str | None
    limits: Limits
    explored: Exploration
    traces: tuple[Told, ...]

    @property
    def is_reachable(self) -> bool:
        """Tell whether a request can read what another wrote."""
        return any(told.trace.finding.is_foreign_read for told in self.traces)

    @property
    def unreachable(self) -> tuple[Finding, ...]:
        """Answer what was looked for in every state and is in none."""
        shown = {told.trace.finding for told in self.traces}
        has_copies = self.explored.setup.has_tier
        sought = (one for one in Finding if has_copies or one is not Finding.HOST_COPY)
        return tuple(one for one in sought if one not in shown)

    def as_text(self) -> str:
        """Answer the explanation; the verdict comes first."""
        foreign = [told for told in self.traces if told.trace.finding.is_foreign_read]
        others = [told for told in self.traces if not told.trace.finding.is_foreign_read]
        ways = "1 way" if len(foreign) == 1 else f"{len(foreign)} ways"
        verdict = (
            f"A read of a foreign page IS REACHABLE, in {ways}; the shortest trace to each:"
            if foreign
            else "No read of a foreign page can be reached."
        )
        parts = [f"{self._heading()}\n{verdict}\n{self._bounds()}"]
        parts += [told.as_text() for told in foreign]
        if others:
            parts.append("Reachable too, without foreign text:")
            parts += [told.as_text() for told in others]
        parts.append(f"Not reachable: {_list(map(str, self.unreachable))}.")
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> dict[str, Any]:
        """Answer the explanation for a program."""
        setup = self.explored.setup
        return {
            "guards": list(self.guards.names),
            "engine_version": self.version,
            "limits": str(self.limits),
            "is_foreign_read_reachable": self.is_reachable,
            "explored": {
                "states": self.explored.states,
                "moves": self.explored.steps,
                "depth": self.explored.depth,
                "is_exhaustive": True,
                "requests": setup.requests,
                "lengths": list(setup.lengths),
                "decode_pages": setup.decode_pages,
                "reserve": setup.reserve,
                "prefill_longest": setup.prefill_longest,
                "decode_longest": setup.decode_longest,
                "has_tier": setup.has_tier,
            },
            "traces": [told.as_json() for told in self.traces],
            "not_reachable": [str(one) for one in self.unreachable],
        }

    def _heading(self) -> str:
        version = f"SGLang {self.version} by its defaults with Mooncake: " if self.version else ""
        tier = ", with a host tier" if self.explored.setup.has_tier else ""
        return f"{version}guards: {_list(self.guards.names)}; limits: {self.limits}{tier}"

    def _bounds(self) -> str:
        explored, setup = self.explored, self.explored.setup
        return (
            f"Explored to the last state: {explored.states:,} states, {explored.steps:,} moves; "
            f"{setup.requests} requests of {_either(setup.lengths)} pages, prefill up to "
            f"{setup.prefill_longest}, decode up to {setup.decode_longest} of its "
            f"{pages_of(setup.decode_pages)}, {setup.reserve} in reserve; aborts and time-outs at "
            "any moment."
        )


def explanation_of(
    guards: ProtocolGuards,
    *,
    version: str | None = None,
    limits: Limits = Limits.UNEQUAL,
    has_tier: bool = False,
) -> Explanation:
    """Answer what is reachable under these guards, with the incident's figures where they show."""
    setup = replace(UNEQUAL if limits is Limits.UNEQUAL else EQUAL, has_tier=has_tier)
    explored = explore(setup, guards)
    shown = {one.finding: Told(trace=one, setup=setup) for one in explored.traces}
    if limits is Limits.UNEQUAL:
        example = replace(INCIDENT, has_tier=has_tier)
        for trace in explore(example, guards).traces:
            shown[trace.finding] = Told(trace=trace, setup=example)
    closed = _closed(explored)
    return Explanation(
        guards=guards,
        version=version,
        limits=limits,
        explored=explored,
        traces=tuple(
            replace(shown[finding], cures=closed.get(finding, ()))
            for finding in Finding
            if finding in shown
        ),
    )


def _closed(explored: Exploration) -> dict[Finding, tuple[str, ...]]:
    """Answer which guards, each added alone, leave no way to a foreign read that is open now."""
    if not explored.foreign_reads:
        return {}
    more = [name for name in GUARD_WORDS if name not in explored.guards.names]
    left = {
        name: explore(explored.setup, with_guard(explored.guards, name)).foreign_reads
        for name in more
    }
    return {
        finding: tuple(name for name in more if finding not in left[name])
        for finding in explored.foreign_reads
    }


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _either(lengths: Sequence[int]) -> str:
    *most, last = map(str, lengths)
    return f"{', '.join(most)} or {last}" if most else last


def table(rows: Sequence[Exploration]) -> str:
    """Answer one line a set of guards: what is left, and how many states say so."""
    width = max(len(_list(row.guards.names)) for row in rows)
    told = [
        f"{_list(row.guards.names):<{width}}  {row.states:>7,}  {_list(sorted(row.foreign_reads))}"
        for row in rows
    ]
    return "\n".join([f"{'guards':<{width}}  {'states':>7}  foreign reads that remain", *told])
