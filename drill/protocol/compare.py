"""Every set of guards beside every other: what each leaves open, and which are enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from drill.protocol.explore import Exploration, explore
from drill.protocol.guards import GUARD_WORDS, ProtocolGuards, guards_named
from drill.protocol.report import table
from drill.protocol.state import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What remains under each set of guards, the smaller sets first."""

    rows: tuple[Exploration, ...]

    @property
    def smallest_enough(self) -> tuple[ProtocolGuards, ...]:
        """Answer the sets that close every foreign read, without those that hold a smaller one."""
        enough: list[ProtocolGuards] = []
        for row in self.rows:
            names = set(row.guards.names)
            if not row.foreign_reads and not any(names > set(one.names) for one in enough):
                enough.append(row.guards)
        return tuple(enough)

    def as_text(self) -> str:
        """Answer the table, and what is enough."""
        enough = [" + ".join(one.names) or "none" for one in self.smallest_enough]
        states = sum(row.states for row in self.rows)
        return (
            f"{table(self.rows)}\n\n{states:,} states in {len(self.rows)} sets, each explored to "
            f"the last state. Enough against every foreign read:\n"
            + "".join(f"  {names}\n" for names in enough)
        )

    def as_json(self) -> dict[str, Any]:
        """Answer the table for a program."""
        return {
            "sets": [
                {
                    "guards": list(row.guards.names),
                    "states": row.states,
                    "foreign_reads": sorted(row.foreign_reads),
                    "findings": sorted(row.findings),
                }
                for row in self.rows
            ],
            "smallest_enough": [list(one.names) for one in self.smallest_enough],
        }


def compare(setup: Setup, sets: Sequence[ProtocolGuards] | None = None) -> Comparison:
    """Answer what remains under each of these sets of guards; under all there are by default."""
    chosen = list(every_set()) if sets is None else sets
    return Comparison(rows=tuple(explore(setup, guards) for guards in chosen))


def every_set() -> Iterator[ProtocolGuards]:
    """Answer every set of guards, the smaller first."""
    for count in range(len(GUARD_WORDS) + 1):
        for names in combinations(GUARD_WORDS, count):
            yield guards_named(names)
