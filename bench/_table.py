"""One row of a benchmark: what was measured against what goal, and the table of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A ratio with its goal; ``ratio`` is None where it was not measured, ``goal`` where none is.

    ``how`` tells the two figures that the ratio is made of.
    """

    what: str
    ratio: float | None
    goal: float | None
    how: str

    @property
    def verdict(self) -> str:
        """Answer in a word or two whether the goal is met; nothing measured is no pass."""
        if self.ratio is None:
            return "not measured"
        if self.goal is None:
            return "no goal"
        return "met" if self.ratio <= self.goal else "MISSED"


def table_of(rows: Iterable[Row]) -> str:
    """Answer the rows as a table in Markdown."""
    lines = ["| what | ratio | goal | verdict | measured |", "| --- | ---: | ---: | --- | --- |"]
    for row in rows:
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        goal = "-" if row.goal is None else f"<= {row.goal:g}"
        lines.append(f"| {row.what} | {ratio} | {goal} | {row.verdict} | {row.how} |")
    return "\n".join(lines)
