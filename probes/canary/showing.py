"""Rounds as plain text for a terminal: each request and what it came to, then the cost."""

from __future__ import annotations

from collections.abc import Sequence

from probes.canary.results import RoundResult, cost_document
from probes.canary.rounds import Row


def render_rounds(results: Sequence[RoundResult]) -> str:
    """Answer every round as text; no answer of a model is in it. Ends without a line break."""
    lines: list[str] = []
    for number, result in enumerate(results, start=1):
        lines += ["", _title(number, result), *map(_line, result.rows)]
    cost = cost_document(results)
    paid = f"{cost['spent_tokens']:,} tokens in {cost['requests']} requests, {cost['seconds']:g} s"
    before = f"{cost['estimated_tokens']:,} tokens, {cost['estimated_seconds']:g} s"
    lines += ["", f"cost: {paid} (at most, told before: {before})"]
    return "\n".join(lines)


def _title(number: int, result: RoundResult) -> str:
    marks = [
        result.is_same_key and "both tenants have one key",
        result.is_cordoned and "out of rotation",
        result.acceptance is not None and f"accepted by {result.acceptance.by}",
    ]
    shown = "".join(f", {mark}" for mark in marks if mark)
    return f"round {number}: {result.plan} by {result.target}, seed {result.seed}{shown}"


def _line(row: Row) -> str:
    status = "-" if row.status is None else str(row.status)
    marks = [
        row.api != "generate" and row.api,
        row.is_streamed and "streamed",
        row.wave and f"wave {row.wave}",
        row.salt and f"salt {row.salt}",
    ]
    words = [
        f"  {row.tenant}",
        f"{row.length:>9,} + {row.max_new_tokens} tokens",
        f"{row.outcome} ({status})",
        ", ".join([row.purpose, *(mark for mark in marks if mark)]),
    ]
    if row.foreign:
        one = row.foreign[0]
        words.append(f"FOREIGN: {one.tenant}, request {one.request}, page {one.page}")
    elif row.suspects:
        one = row.suspects[0]
        words.append(f"perhaps of {one.tenant}, request {one.request}, page {one.page}")
    if row.reason:
        words.append(row.reason)
    return "  ".join(words)
