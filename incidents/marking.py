"""Writes values into Markdown so that they stay values: escaped text, tables, moments, figures."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from incidents.postmortem import Figure

Lines = list[str]

_DASH = "\N{EN DASH}"
#: What means something inside a line; an underscore within a word does not. Source: CommonMark
#: 0.31.2, 6; GitHub's tables, strikethrough and formulas.
_INSIDE = re.compile(r"[\\`*\[\]<>|~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
#: What means something where a line or a list item begins. Source: CommonMark 0.31.2, 4 and 5.
#: A number begins an item only where a blank follows its sign, which no version number has.
_AT_START = re.compile(r"^(?:[#+\-=:]|\d{1,9}[.)](?=\s|$))")
#: Categories that end lines, move the cursor or turn the reading direction.
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def text(value: str) -> str:
    """Answer any text as one line of plain words; an empty one as a dash."""
    shown = "".join(" " if unicodedata.category(one) in _UNSHOWN else one for one in value)
    line = " ".join(shown.split())
    escaped = _INSIDE.sub(r"\\\g<0>", line)
    return _AT_START.sub(_defuse, escaped) or _DASH


def _defuse(start: re.Match[str]) -> str:
    """Answer the start of a line with a backslash before its last sign."""
    return f"{start.group()[:-1]}\\{start.group()[-1]}"


def or_dash(value: str) -> str:
    """Answer a value that needs no escaping, or a dash where there is none."""
    return value or _DASH


def moment(at: datetime | None) -> str:
    """Answer a moment in UTC to the second."""
    return "unknown" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def figure(value: Figure) -> str:
    """Answer a figure as people read it: thousands separated, an interval as "a to b"."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, tuple):
        return " to ".join(f"{end:,}" for end in value) or _DASH
    return text(value)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    """Answer the lines of a table whose cells are escaped already; a sentence where it is empty."""
    lines = [_row(row) for row in rows]
    if not lines:
        return ["None."]
    return [_row(header), _row(["---"] * len(header)), *lines]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
