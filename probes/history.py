"""What changed on a node from one stored reading to the next, as people read it; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from fleet.reading import Reading, Role

#: What a proof is bound to; load, counters and moments are not in it, so they are no change.
_IDENTITY: Final = tuple(
    Reading(
        node="", engine="", role=Role.UNIFIED, taken_at=datetime(2026, 1, 1, tzinfo=UTC)
    ).identity()
)
#: Marks of one start of the process: that they differ says all that they say.
_STARTS: Final = frozenset({"started", "random_seed"})
#: A field that the engine did not show, and one that was not looked for when it was read.
_NOT_SHOWN: Final = "not shown"
_NOT_READ: Final = "not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field of a node's identity, before and after; both as text."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One moment at which a node was found changed or restarted."""

    node: str
    at: datetime
    changes: tuple[Change, ...]
    restart: str

    @property
    def is_silent(self) -> bool:
        """Answer whether no figure or flag changed: the process is merely a new one."""
        return not self.changes


def history_line(
    *, node: str, at: datetime, before: Mapping[str, object], after: Mapping[str, object]
) -> HistoryLine:
    """Answer what two stored readings of a node differ in."""
    changes = changes_between(before, after)
    return HistoryLine(
        node=node,
        at=at,
        changes=tuple(one for one in changes if one.name not in _STARTS),
        restart=_restart(changes, before, after),
    )


def changes_between(before: Mapping[str, object], after: Mapping[str, object]) -> list[Change]:
    """Answer every field of the identity that differs, by name; throughput is never among them."""
    old, new = dict(_flat(before)), dict(_flat(after))
    return [
        Change(
            name=name,
            before=_shown(old[name]) if name in old else _NOT_READ,
            after=_shown(new[name]) if name in new else _NOT_READ,
        )
        for name in sorted({*old, *new})
        if name not in old or name not in new or old[name] != new[name]
    ]


def _restart(
    changes: list[Change], before: Mapping[str, object], after: Mapping[str, object]
) -> str:
    """Answer by what a restart shows, or nothing."""
    names = {change.name for change in changes}
    if "started" in names:
        return "its start times are others"
    if "random_seed" in names:
        return "its random seed is another"
    fallen = sorted(_fallen(_counters(before), _counters(after)))
    return f"its counter {fallen[0]} fell" if fallen else ""


def _fallen(before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[str]:
    for name, value in before.items():
        if after.get(name, value) < value:
            yield name


def _counters(document: Mapping[str, object]) -> dict[str, float]:
    """Answer stored counters; readings of earlier releases have none."""
    found = document.get("counters")
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


def _flat(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name in _IDENTITY:
        value = document.get(name)
        if isinstance(value, Mapping):
            for part, inner in value.items():
                yield f"{name}.{part}", inner
        elif name == "ranks" and isinstance(value, list):
            yield from _flat_ranks(value)
        else:
            yield name, value


def _flat_ranks(ranks: list[object]) -> Iterator[tuple[str, object]]:
    """Answer the figures of each rank. Source: Reading.identity, "ranks"."""
    for rank in ranks:
        if isinstance(rank, list | tuple) and rank:
            yield f"rank {rank[0]}", "there"
            kinds = ("token_capacity", "swa_capacity", "reported_pool")
            for kind, figure in zip(kinds, rank[1:], strict=False):
                yield f"rank {rank[0]}.{kind}", figure


def _shown(value: object) -> str:
    if value is None:
        return _NOT_SHOWN
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
