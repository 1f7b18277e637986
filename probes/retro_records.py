"""Reads what was recorded of pools and contexts: Prometheus range exports and start-up logs."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from fleet.jsontext import NotJson, clean_text, parse_json
from probes.retro import Stretch

POOL_METRICS: Final = ("sglang:max_total_num_tokens", "sglang_max_total_num_tokens")
CONTEXT_METRICS: Final = ("sglang:context_len", "sglang_context_len")
#: Where a sample is missing for longer than this many usual distances, nothing is recorded.
GAP_FACTOR: Final = 2.5
_LONGEST_DISTANCE_S: Final = 3600.0
_MOST_SAMPLES: Final = 20_000_000
_ROLES: Final = frozenset({"prefill", "decode", "unified"})

#: SGLang: "[2026-08-27 09:00:00 TP0] ..."; also ISO 8601 as containers write it.
_MOMENT: Final = re.compile(
    r"\[?(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2}(?:[.,]\d{1,6})?)\d*\s?(Z|[+-]\d{2}:?\d{2})?"
)
_STARTED: Final = re.compile(r"\bmax_total_num_tokens=(\d{1,12})\b.*?\bcontext_len=(\d{1,12})\b")
_MODE: Final = re.compile(r"disaggregation_mode='?(prefill|decode|null)\b")
_VERSION: Final = re.compile(r"\b(?:sglang[ _]version|version)[=: ]+'?v?(\d[\w.+-]{0,40})")


class BadRecord(ValueError):
    """The file holds neither a range export nor a start-up line that can be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What files came to: stretches of time, and what could not be used of them."""

    stretches: tuple[Stretch, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: Records) -> Records:
        """Answer both as one."""
        return Records(
            stretches=self.stretches + other.stretches,
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )


@dataclass(slots=True, kw_only=True)
class Samples:
    """Samples by instance and role: moment (epoch, seconds) -> figures of all its ranks."""

    pools: dict[tuple[str, str], dict[float, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    contexts: dict[tuple[str, str], dict[float, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    notes: dict[str, None] = field(default_factory=dict)
    count: int = 0

    def take(self, text: bytes, *, name: str) -> None:
        """Add one range export. Raises BadRecord, with the reason in one line."""
        for series in _series(text):
            labels = series.get("metric")
            if not isinstance(labels, dict):
                raise BadRecord("a series has no labels: export it with its metric names")
            metric = labels.get("__name__")
            place = self.pools if metric in POOL_METRICS else None
            place = self.contexts if metric in CONTEXT_METRICS else place
            if place is None:
                shown = clean_text(str(metric), longest=80)
                self.notes[f"{name}: the series {shown} is not used"] = None
                continue
            self._take_series(place[_owner(labels)], series.get("values"))

    def _take_series(self, moments: dict[float, list[int]], values: object) -> None:
        if not isinstance(values, list):
            raise BadRecord("a series has no values: it must be a range, not one moment")
        self.count += len(values)
        if self.count > _MOST_SAMPLES:
            raise BadRecord(f"there are more than {_MOST_SAMPLES:,} samples: use a longer step")
        for moment, figure in map(_sample, values):
            if figure is not None:
                moments[moment].append(figure)

    def records(self) -> Records:
        """Answer the stretches that all samples together come to."""
        stretches: list[Stretch] = []
        notes = [*self.notes]
        for owner, pools in self.pools.items():
            instance, role = owner
            if role not in _ROLES:
                notes.append(f"{instance}: its engine_type {role or 'label'} is not known")
                continue
            stretches += _stretches(owner, pools, self.contexts.get(owner, {}))
        notes += [
            f"{instance}: its context is recorded, its pool is not"
            for instance, role in self.contexts
            if (instance, role) not in self.pools
        ]
        return Records(stretches=tuple(stretches), notes=tuple(notes))


def is_export(text: bytes) -> bool:
    """Answer whether a file is JSON rather than a log."""
    return text.lstrip()[:1] == b"{"


def read_log(text: str, *, instance: str) -> Records:
    """Answer the stretches between start-up lines; a process is recorded to its last dated line.

    Source: "max_total_num_tokens=..., context_len=..." of SGLang 0.5.5 to 0.5.23, once a rank.
    Raises BadRecord.
    """
    reader = _LogReader(instance=instance)
    for line in text.splitlines():
        reader.take(line)
    return reader.records()


@dataclass(slots=True, kw_only=True)
class _LogReader:
    """One log, line by line."""

    instance: str
    role: str | None = None
    version: str | None = None
    last_at: datetime | None = None
    has_bare_times: bool = False
    starts: list[tuple[datetime, int, int, str | None, str | None]] = field(default_factory=list)

    def take(self, line: str) -> None:
        mode, version = _MODE.search(line), _VERSION.search(line)
        if mode:
            self.role = "unified" if mode.group(1) == "null" else mode.group(1)
        if version and "server_args" not in line:
            self.version = version.group(1)
        at = self._moment(line)
        self.last_at = at or self.last_at
        started = _STARTED.search(line)
        if started and self.last_at is not None:
            pool, context = (int(one) for one in started.groups())
            self.starts.append((self.last_at, pool, context, self.role, self.version))

    def _moment(self, line: str) -> datetime | None:
        found = _MOMENT.search(line[:80])
        if found is None:
            return None
        day, time, zone = found.groups()
        self.has_bare_times = self.has_bare_times or zone is None
        try:
            moment = datetime.fromisoformat(f"{day}T{time.replace(',', '.')}{zone or '+00:00'}")
        except ValueError:
            return None
        return moment.astimezone(UTC)

    def records(self) -> Records:
        if not self.starts or self.last_at is None:
            raise BadRecord("it holds no dated line with max_total_num_tokens= and context_len=")
        if self.role is None:
            raise BadRecord("it does not show disaggregation_mode, so its role is not known")
        notes = []
        if self.has_bare_times:
            notes.append(f"{self.instance}: times without a zone are read as UTC")
        return Records(stretches=tuple(self._stretches(self.last_at)), notes=tuple(notes))

    def _stretches(self, last_at: datetime) -> Iterator[Stretch]:
        for index, (at, pool, context, role, version) in enumerate(self.starts):
            later = self.starts[index + 1][0] if index + 1 < len(self.starts) else last_at
            yield Stretch(
                instance=self.instance,
                role=role or self.role or "",
                begins_at=at,
                ends_at=later,
                least_pool=pool,
                most_pool=pool,
                context=context,
                version=version,
            )


def _series(text: bytes) -> list[Mapping[str, object]]:
    try:
        document = parse_json(text)
    except NotJson as fault:
        raise BadRecord(f"it is no JSON: {fault}") from None
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, dict) or data.get("resultType") != "matrix":
        raise BadRecord("it is no range export (the answer of /api/v1/query_range, as it came)")
    found = data.get("result")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadRecord("its result is no list of series")
    return found


def _owner(labels: Mapping[str, object]) -> tuple[str, str]:
    instance = labels.get("instance") or labels.get("worker_addr")
    if not isinstance(instance, str):
        raise BadRecord("a series has no instance label: nobody can tell its node")
    return clean_text(instance, longest=120), str(labels.get("engine_type") or "")


def _sample(value: object) -> tuple[float, int | None]:
    """Answer a sample's moment and figure; None for one that is no figure (NaN: stale)."""
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - a pair
        raise BadRecord("a sample is no pair of a moment and a figure")
    try:
        at, figure = float(value[0]), float(value[1])
    except (TypeError, ValueError, OverflowError):
        raise BadRecord("a sample is no pair of a moment and a figure") from None
    if not math.isfinite(at) or not 0 <= at < 1e11:  # noqa: PLR2004 - the year 5138
        raise BadRecord("a sample has no moment in seconds since 1970")
    return at, int(figure) if math.isfinite(figure) and figure > 0 else None


def _stretches(
    owner: tuple[str, str],
    pools: Mapping[float, list[int]],
    contexts: Mapping[float, list[int]],
) -> Iterator[Stretch]:
    """Answer runs of like figures; a figure holds until the next sample, unless that is far off."""
    moments = sorted(pools)
    longest_s = GAP_FACTOR * _usual_distance_s(moments)
    begun: int | None = None
    for index, moment in enumerate(moments):
        if begun is None:
            begun = index
        following = moments[index + 1] if index + 1 < len(moments) else None
        is_followed = following is not None and following - moment <= longest_s
        figures = _figures(pools, contexts, moment)
        if is_followed and following is not None:
            if figures == _figures(pools, contexts, following):
                continue
            ends_s = following
        else:
            ends_s = moment
        least, most, context = _figures(pools, contexts, moments[begun])
        yield Stretch(
            instance=owner[0],
            role=owner[1],
            begins_at=_at(moments[begun]),
            ends_at=_at(ends_s),
            least_pool=least,
            most_pool=most,
            context=context,
        )
        begun = None


def _figures(
    pools: Mapping[float, list[int]], contexts: Mapping[float, list[int]], moment: float
) -> tuple[int, int, int | None]:
    """Answer smallest and largest pool of the ranks, and their one context, at one moment."""
    told = {*contexts.get(moment, [])}
    return min(pools[moment]), max(pools[moment]), told.pop() if len(told) == 1 else None


def _usual_distance_s(moments: list[float]) -> float:
    """Answer the median distance of samples: the step of the export."""
    distances = sorted(b - a for a, b in pairwise(moments))
    if not distances:
        return _LONGEST_DISTANCE_S
    return min(distances[len(distances) // 2], _LONGEST_DISTANCE_S)


def _at(moment_s: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=moment_s)
