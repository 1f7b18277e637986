"""A judgement as plain text for a terminal: verdict first, then why, then what was skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from common.verdicts import WORST_FIRST
from probes.judgement import Check, Figure, Judgement

_ADVISORY = "advisory"


def render_table(judgement: Judgement) -> str:
    """Answer the whole judgement as text; ends without a line break."""
    lines = [f"verdict: {judgement.verdict}", ""]
    rows = [("CHECK", "TARGET", "VERDICT", "FIGURES"), *map(_row, judgement.checks)]
    lines += _aligned(rows)
    lines.append("")
    for alike in _told_together(sorted(judgement.checks, key=_urgency)):
        names = ", ".join(dict.fromkeys(check.check for check in alike))
        lines.append(f"{alike[0].verdict}: {names}: {alike[0].reason}")
        for check in alike:
            lines += _remedies_of(check, judgement)
    if judgement.skipped:
        lines.append("")
        lines += [f"skipped {one.check}: {one.reason}" for one in judgement.skipped]
    return "\n".join(map(_harmless, lines))


def _told_together(checks: Iterable[Check]) -> Iterator[list[Check]]:
    """Answer runs of checks that say the same for the same reason: it is told once."""
    for _, alike in groupby(checks, key=lambda check: (check.verdict, check.reason)):
        yield list(alike)


def _remedies_of(check: Check, judgement: Judgement) -> Iterator[str]:
    """Answer what closes a failing check, one way a line, with its flags below."""
    for remedy in judgement.remedies:
        if (remedy.check, remedy.target) == (check.check, check.target):
            yield f"  remedy: {remedy.action}"
            yield from _flag_lines(remedy.flags)


def _flag_lines(flags: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Answer one line for all nodes with the same flags."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for node, wanted in flags.items():
        alike.setdefault(wanted, []).append(node)
    for wanted, nodes in alike.items():
        yield f"    {', '.join(nodes)}: {' '.join(wanted)}"


def _urgency(check: Check) -> tuple[bool, int]:
    """Answer what blocks before what does not, and the worst of each first."""
    return not check.required, WORST_FIRST.index(check.verdict)


def _harmless(line: str) -> str:
    """Answer the line without control characters: names and versions come from the nodes."""
    return "".join(sign if sign.isprintable() else "?" for sign in line)


def _row(check: Check) -> tuple[str, str, str, str]:
    verdict = str(check.verdict) if check.required else f"{check.verdict} ({_ADVISORY})"
    return check.check, check.target, verdict, _figures(check.figures)


def _figures(figures: Mapping[str, Figure]) -> str:
    return "  ".join(f"{name}={_shown(value)}" for name, value in figures.items())


def _shown(value: Figure) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list):
        return "[" + ", ".join(f"{one:,}" for one in value) + "]"
    return value


def _aligned(rows: list[tuple[str, str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join([*(row[column].ljust(widths[column]) for column in range(3)), row[3]]).rstrip()
        for row in rows
    ]
