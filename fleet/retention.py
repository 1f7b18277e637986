"""Deletes old readings that say nothing new and that nobody refers to, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.fields.reverse_related import ForeignObjectRel

from common.clock import now
from fleet.models import Node, NodeReading

#: How often a node's old readings are looked at, and how many nodes one tick looks at.
EVERY: Final = timedelta(hours=1)
NODES_A_TICK: Final = 10
#: Rows that one look deletes of one node; a node with more is looked at again by the next tick.
ROWS_A_NODE: Final = 2_000

#: Deletes readings of one node from before a moment, but for the first and last of each
#: fingerprint, those that changed, those that came last before any node of the deployment changed
#: (an incident's exposure is bounded by them), and those that a row of any table refers to.
_DELETE: Final = """
    WITH old AS (
        SELECT id, taken_at, changed_from_id, problem = '' AS is_read,
            row_number() OVER (same ORDER BY taken_at, id) AS place,
            row_number() OVER (same ORDER BY taken_at DESC, id DESC) AS place_from_end
        FROM fleet_nodereading WHERE node_id = %(node)s AND taken_at < %(before)s
        WINDOW same AS (PARTITION BY fingerprint, problem = '')
    ), merged AS (
        SELECT id, taken_at, 1 AS is_reading FROM old WHERE is_read
        UNION ALL
        SELECT DISTINCT NULL::bigint, c.taken_at, 0
        FROM fleet_nodereading c JOIN fleet_node n ON n.id = c.node_id
        WHERE n.deployment_id = %(deployment)s AND c.changed_from_id IS NOT NULL
            AND c.taken_at < %(before)s
    ), followed AS (
        SELECT id, lead(is_reading) OVER (ORDER BY taken_at, is_reading, id) AS next_is_reading
        FROM merged
    )
    DELETE FROM fleet_nodereading WHERE id IN (
        SELECT id FROM old
        WHERE place > 1 AND place_from_end > 1 AND changed_from_id IS NULL
            AND id NOT IN (SELECT id FROM followed WHERE id IS NOT NULL AND next_is_reading = 0)
            {unless_referred}
        ORDER BY taken_at LIMIT %(most)s
    )
"""


def _references() -> Iterator[tuple[str, str]]:
    """Answer table and column of every foreign key to a reading, also from floors above."""
    # Most are hidden: they have no name on this side.
    for relation in NodeReading._meta.get_fields(include_hidden=True):  # noqa: SLF001 - public API
        if isinstance(relation, ForeignObjectRel):
            model, column = relation.field.model, relation.field.column
            yield model._meta.db_table, str(column)  # noqa: SLF001 - as above


def _statement() -> str:
    """Answer the statement; names of tables and columns are our own models'."""
    quote = connection.ops.quote_name
    unless = " ".join(
        f"AND NOT EXISTS (SELECT 1 FROM {quote(table)} t WHERE t.{quote(column)} = old.id)"  # noqa: S608
        for table, column in _references()
    )
    return _DELETE.format(unless_referred=unless)


@transaction.atomic
def readings_prune() -> int:
    """Delete old readings of the nodes whose turn it is; answers how many rows went.

    Everything of the last ``READINGS_KEPT_DAYS`` stays; 0 keeps everything for ever.
    """
    days = settings.READINGS_KEPT_DAYS
    if days < 1:
        return 0
    moment = now()
    due = Node.objects.filter(Q(pruned_at=None) | Q(pruned_at__lt=moment - EVERY))
    nodes = due.order_by(F("pruned_at").asc(nulls_first=True), "pk")[:NODES_A_TICK]
    return sum(_prune(node, days) for node in nodes)


def _prune(node: Node, days: int) -> int:
    moment = now()
    with connection.cursor() as cursor:
        cursor.execute(
            _statement(),
            {
                "node": node.pk,
                "deployment": node.deployment_id,
                "before": moment - timedelta(days=days),
                "most": ROWS_A_NODE,
            },
        )
        gone = int(cursor.rowcount)
    if gone < ROWS_A_NODE:
        Node.objects.filter(pk=node.pk).update(pruned_at=moment)
    return gone
