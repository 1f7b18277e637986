"""Judges fresh readings of a stored deployment, also against what its nodes were before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Exists, Max, OuterRef, Q

from common.verdicts import WORST_FIRST
from fleet.models import Deployment, Node, NodeReading
from fleet.reading import Reading
from fleet.selectors import deployment_access
from probes.deployment_judge import judge_readings
from probes.judgement import Check, Judgement
from probes.stale_cache import CLEARED, MEANING, judge_stale_cache

#: Parts of a stored reading that say what its pages meant and where they were kept.
_SAID: Final = ("document__engine", "document__layout", "document__flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """How a node once kept its pages, and when it was last seen so."""

    reading: Reading
    last_seen_at: datetime


def judge_deployment(
    deployment: Deployment, readings: Sequence[Reading], *, rounds: Sequence[object] = ()
) -> Judgement:
    """Answer what the gates say of these readings, and whether a storage holds pages of before.

    Raises SealBroken.
    """
    return judge_readings(
        deployment_access(deployment),
        readings,
        rounds=rounds,
        also=stale_caches(deployment, readings),
    )


def stale_caches(deployment: Deployment, readings: Iterable[Reading]) -> tuple[Check, ...]:
    """Answer one check for each node that once gave its pages another meaning, however long ago.

    A storage outlives restarts, so the reading just before is not enough: what was written three
    starts ago is still there. What was seen last before somebody attested that the storage was
    cleared rests on that word; what was seen after it does not.
    """
    nodes = {node.name: node for node in Node.objects.filter(deployment=deployment)}
    found = (
        _stale_cache(nodes[reading.node], reading)
        for reading in readings
        if reading.node in nodes and reading.is_read
    )
    return tuple(check for check in found if check is not None)


def _stale_cache(node: Node, reading: Reading) -> Check | None:
    past = [one for one in _past_of(node, reading) if _meaning(one.reading) != _meaning(reading)]
    if not past:
        return None
    cleared_at = _cleared_at(node)
    bare = replace(
        reading, attested={key: one for key, one in reading.attested.items() if key != CLEARED}
    )
    checks = [
        judge_stale_cache(
            one.reading,
            reading if cleared_at is not None and one.last_seen_at <= cleared_at else bare,
        )
        for one in past
    ]
    told = [check for check in checks if check is not None]
    return min(told, key=lambda check: WORST_FIRST.index(check.verdict), default=None)


def _meaning(reading: Reading) -> tuple[str | None, ...]:
    return tuple(reading.layout.get(name) for name in MEANING)


def _past_of(node: Node, now_there: Reading) -> list[_Past]:
    """Answer every way in which a node was read, from the readings between which it changed."""
    pointed_at = NodeReading.objects.filter(changed_from=OuterRef("pk"))
    readable = NodeReading.objects.filter(node=node, problem="", taken_at__lt=now_there.taken_at)
    first = readable.order_by("taken_at", "pk").values("pk")[:1]
    turns = readable.filter(Q(changed_from__isnull=False) | Q(pk__in=first) | Q(Exists(pointed_at)))
    rows = turns.order_by().values(*_SAID).annotate(last=Max("taken_at")).order_by("-last")
    return [_Past(reading=_reading_of(row, now_there), last_seen_at=row["last"]) for row in rows]


def _reading_of(row: Mapping[str, Any], now_there: Reading) -> Reading:
    engine, layout, flags = (row[name] for name in _SAID)
    return Reading(
        node=now_there.node,
        engine=engine if isinstance(engine, str) else "",
        role=now_there.role,
        taken_at=row["last"],
        layout=layout if isinstance(layout, dict) else {},
        flags=flags if isinstance(flags, dict) else {},
    )


def _cleared_at(node: Node) -> datetime | None:
    """Answer when the newest standing word was given that this node's storage was cleared."""
    words = node.deployment.attestations.filter(
        Q(node=node) | Q(node=None), key=CLEARED, withdrawn_at=None
    )
    return max((one.given_at for one in words if one.is_standing), default=None)
