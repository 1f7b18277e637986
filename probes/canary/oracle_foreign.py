"""Oracle: no answer holds what another request planted; and what the clean rounds exclude."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import (
    Doubt,
    asks_of,
    count_of,
    doubt_fill,
    doubt_search,
    inconclusive,
    name_of,
    unexercised,
)
from probes.canary.exclusion import describe_exclusion
from probes.canary.rounds import Echo, Outcome, Part, Row, Sighting
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

FOREIGN_MARKER = "foreign_marker"
KIND = Kind.LEAK
#: So many answers in a row that each belong to the request before are no chance.
SHIFTED = 2


def judge_foreign_marker(evidence: Evidence) -> Check:
    """Fail on any marker that a request did not bring itself, whatever else came back."""
    seen = seen_foreign(evidence)
    if seen is not None:
        return seen
    doubts = [*doubt_pieces(evidence), *doubt_fill(evidence), *doubt_search(evidence)]
    searched = [row for row in asks_of(evidence) if row.is_served]
    reason = (
        f"no foreign marker in {count_of(len(searched), 'answer')} after another tenant filled "
        f"the pool; {describe_exclusion(1)}"
    )
    return settled(evidence, FOREIGN_MARKER, doubts, reason, kind=KIND)


def judge_foreign_among(evidence: Evidence) -> Check:
    """Fail on any marker that a request did not bring itself, in a round that fills no pool.

    What could come back is what other requests brought that were under way at the same time.
    """
    seen = seen_foreign(evidence)
    if seen is not None:
        return seen
    doubts = [*doubt_pieces(evidence), *_doubt_among(evidence), *doubt_search(evidence)]
    searched = [row for row in asks_of(evidence) if row.is_served]
    reason = (
        f"no foreign marker in {count_of(len(searched), 'answer')} while another tenant's prompts "
        f"were under way; {describe_exclusion(1)}"
    )
    return settled(evidence, FOREIGN_MARKER, doubts, reason, kind=KIND)


def seen_foreign(evidence: Evidence) -> Check | None:
    """Answer the failure where an answer holds what another request planted, or None."""
    found = [(row, one) for row in evidence.rows for one in row.foreign]
    if not found:
        return _seen_twice(evidence)
    row, one = min(found, key=_by_weight)
    view = "" if one.view == "plain" else f", {one.view}"
    return check_of(
        evidence,
        FOREIGN_MARKER,
        Verdict.FAIL,
        f"the answer to {name_of(row)} of {row.tenant} holds text that another request "
        f"planted: {one.tenant}, request {one.request}, page {one.page}{view}{_shift(evidence)}",
        kind=KIND,
        row=row,
        tenant=one.tenant,
        request=one.request,
        page=one.page,
        markers=len(found),
    )


def _seen_twice(evidence: Evidence) -> Check | None:
    """Answer the failure where pieces were seen twice, independently of each other, or None.

    Twice means in two answers and of two requests' markers: each request has its own, so what looks
    like one of them by chance does not look like the other. A round with one is sent once more.
    """
    rows = [row for row in evidence.rows if row.suspects]
    first = next(iter(rows), None)
    if first is None:
        return None
    one = first.suspects[0]
    again = [(row, two) for row in rows[1:] for two in row.suspects if two.request != one.request]
    if not again:
        return None
    row, two = again[0]
    return check_of(
        evidence,
        FOREIGN_MARKER,
        Verdict.FAIL,
        f"the answer to {name_of(first)} of {first.tenant} holds pieces of {one.tenant}'s request "
        f"{one.request}, page {one.page}, and the answer to {name_of(row)} pieces of "
        f"{two.tenant}'s request {two.request}, page {two.page}: two independent sightings",
        kind=KIND,
        row=row,
        tenant=two.tenant,
        request=two.request,
        page=two.page,
        markers=len(rows),
    )


def doubt_pieces(evidence: Evidence) -> Iterator[Doubt]:
    """Answer that pieces of another request's marker were seen, too few to be sure of."""
    row = next((row for row in evidence.rows if row.suspects), None)
    if row is None:
        return
    one = row.suspects[0]
    bits = "" if one.net_bits is None else f" ({one.net_bits:.0f} bits beyond chance)"
    yield inconclusive(
        f"the answer to {name_of(row)} of {row.tenant} holds what may be pieces of {one.tenant}'s "
        f"request {one.request}, page {one.page}{bits}: send it again with new markers, and keep "
        "the raw request and answer, the worker's name and its settings"
    )


def _doubt_among(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why no marker of another tenant could surely have come back."""
    if not any(row.echo is Echo.WHOLE for row in evidence.rows):
        yield inconclusive(
            "a marker did not come back even to the tenant who sent it, so its absence elsewhere "
            "means nothing"
        )
    waves: dict[int, set[str]] = {}
    for row in evidence.rows:
        if row.wave and (row.is_served or row.outcome is Outcome.LEFT):
            waves.setdefault(row.wave, set()).add(row.tenant)
    if not any(len(tenants) > 1 for tenants in waves.values()):
        yield unexercised("no requests of two tenants were under way together")


def _shift(evidence: Evidence) -> str:
    """Answer that answers are shifted by one, which is the connection's fault, or nothing."""
    longest = run = 0
    for before, row in pairwise(evidence.rows):
        is_of_last = any(one.request == before.request for one in row.foreign)
        run = run + 1 if is_of_last and before.request else 0
        longest = max(longest, run)
    if longest < SHIFTED:
        return ""
    return (
        f"; {longest} answers in a row belong each to the request before it, so a connection "
        "hands on answers that nobody fetched: look at the client's or gateway's connection pool, "
        "not at the KV cache"
    )


def _by_weight(found: tuple[Row, Sighting]) -> tuple[bool, bool, int]:
    """Order sightings: in an ask first, then another tenant's before one's own older one."""
    row, one = found
    return row.part is not Part.ASK, one.tenant == row.tenant, row.position
