"""Readings in bulk: what was known of each node before, and new rows by COPY.

COPY takes a tenth of the CPU time that as many inserts take (docs/bench.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from fleet.jsontext import document_json
from fleet.models import NodeReading
from fleet.reading import counters_fell

#: One look into the index for each node, however many readings it has.
_BEFORE = """
    SELECT n.id, r.id, r.fingerprint, r.counters
    FROM unnest(%s::bigint[]) AS n(id) CROSS JOIN LATERAL (
        SELECT id, fingerprint, document -> 'counters' AS counters FROM fleet_nodereading
        WHERE node_id = n.id AND problem = '' ORDER BY taken_at DESC, id DESC LIMIT 1
    ) r
"""
_KEYS = """
    SELECT nextval(pg_get_serial_sequence('fleet_nodereading', 'id')) FROM generate_series(1, %s)
"""
_COPY = """
    COPY fleet_nodereading
        (id, node_id, taken_at, fingerprint, problem, document, outcome, changed_from_id)
    FROM STDIN
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The last reading of a node in which it could be read, as far as a change shows in it."""

    key: int
    fingerprint: str
    counters: Mapping[str, float]

    def differs_from(self, fingerprint: str, counters: Mapping[str, float]) -> bool:
        """Answer whether a node with this fingerprint changed or restarted since."""
        return self.fingerprint != fingerprint or counters_fell(self.counters, counters)


def readings_before(nodes: Iterable[int]) -> dict[int, Before]:
    """Answer the last reading of each node in which it could be read."""
    with connection.cursor() as cursor:
        cursor.execute(_BEFORE, [list(nodes)])
        return {
            node: Before(key=key, fingerprint=fingerprint, counters=_counters(stored))
            for node, key, fingerprint, stored in cursor.fetchall()
        }


def readings_copy(rows: Sequence[NodeReading]) -> None:
    """Store new rows and give them their keys."""
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.execute(_KEYS, [len(rows)])
        for row, (key,) in zip(rows, cursor.fetchall(), strict=True):
            row.pk = key
        with cursor.copy(_COPY) as copy:
            for row in rows:
                copy.write_row(
                    (
                        row.pk,
                        row.node_id,
                        row.taken_at,
                        row.fingerprint,
                        row.problem,
                        document_json(row.document),
                        str(row.outcome),
                        row.changed_from_id,
                    )
                )
    for row in rows:
        row._state.adding = False  # noqa: SLF001 - as Django's own bulk insert leaves it


def _counters(stored: object) -> dict[str, float]:
    """Answer stored counters; readings of earlier releases have none."""
    found = json.loads(stored) if isinstance(stored, str) else stored
    return dict(found) if isinstance(found, dict) else {}
