"""Since when the band was open: the rule of ``pair_exposure`` over what was recorded in the past.

A window is a lower bound of an exposure: it holds only moments of which both sides were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from probes.versions import place_version

#: SGLang's own arithmetic: max_req_input_len = min(context - 1, pool - 1) - 5 (tp_worker.py).
_BELOW_POOL = 6
#: Stands for every instance in a window that is about no pair in particular.
ANY = "*"


class Openness(StrEnum):
    """What is known of a pair in a stretch of time.

    ``possible``: the limits leave a band, and the version is not known.
    """

    OPEN = "open"
    POSSIBLE = "possible"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One instance with the same figures from ``begins_at`` to ``ends_at``, as recorded.

    ``least_pool`` and ``most_pool`` are the smallest and largest pool of its ranks, in tokens;
    ``context`` is None where it was not recorded. ``version`` likewise.
    """

    instance: str
    role: str
    begins_at: datetime
    ends_at: datetime
    least_pool: int
    most_pool: int
    context: int | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A pair in a stretch of time. ``band`` holds the lengths prefill refuses and decode admits.

    ``is_cut`` says that nothing is recorded before it: the band may have been open earlier.
    """

    prefill: str
    decode: str
    openness: Openness
    begins_at: datetime
    ends_at: datetime
    band: tuple[int, int] | None = None
    version: str | None = None
    reason: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Every pair's windows, oldest first; ``unknown`` ones are the gaps."""

    windows: tuple[Window, ...]
    notes: tuple[str, ...] = ()

    @property
    def open_since(self) -> datetime | None:
        """Answer the earliest moment at which a band is known to have been open."""
        return min((one.begins_at for one in self.of(Openness.OPEN)), default=None)

    @property
    def possible_since(self) -> datetime | None:
        """Answer the earliest moment at which a band was or may have been open."""
        found = self.of(Openness.OPEN, Openness.POSSIBLE)
        return min((one.begins_at for one in found), default=None)

    def of(self, *kinds: Openness) -> tuple[Window, ...]:
        """Answer the windows of these kinds."""
        return tuple(one for one in self.windows if one.openness in kinds)


def look_back(
    stretches: Iterable[Stretch], *, version: str | None = None, notes: Iterable[str] = ()
) -> History:
    """Answer what every prefill x decode pair was, from the first recorded moment to the last.

    ``version`` is what a person says the prefill nodes ran where no record tells it.
    """
    known = sorted(stretches, key=lambda one: (one.begins_at, one.instance))
    prefills = _by_instance(known, "prefill")
    decodes = _by_instance(known, "decode")
    windows = [
        window
        for prefill in prefills.values()
        for decode in decodes.values()
        for window in _pair(prefill, decode, version)
    ]
    windows += _gaps(known, windows)
    windows.sort(key=lambda one: (one.begins_at, one.prefill, one.decode))
    return History(windows=tuple(windows), notes=tuple(notes))


def first_refused(pool: int, context: int | None) -> int | None:
    """Answer F, the shortest length that such a node refuses; None where it cannot be computed."""
    if context is None:
        return None
    refused = min(context, pool) - _BELOW_POOL
    return refused if refused > 0 else None


def _by_instance(stretches: Sequence[Stretch], role: str) -> dict[str, list[Stretch]]:
    found: dict[str, list[Stretch]] = {}
    for one in stretches:
        if one.role == role:
            found.setdefault(one.instance, []).append(one)
    return found


def _pair(
    prefill: Sequence[Stretch], decode: Sequence[Stretch], version: str | None
) -> Iterator[Window]:
    """Answer one pair's windows while both were recorded, neighbours of one kind merged."""
    begins_at = max(side[0].begins_at for side in (prefill, decode))
    ends_at = min(max(one.ends_at for one in side) for side in (prefill, decode))
    moments = {moment for one in (*prefill, *decode) for moment in (one.begins_at, one.ends_at)}
    edges = sorted(moment for moment in moments if begins_at <= moment <= ends_at)
    merged: list[Window] = []
    for earlier, later in pairwise(edges):
        window = _between(prefill, decode, earlier, later, version)
        last = merged[-1] if merged else None
        if last is not None and _is_like(last, window):
            merged[-1] = replace(last, ends_at=window.ends_at)
        else:
            merged.append(window)
    for index, one in enumerate(merged):
        is_cut = index == 0 or merged[index - 1].openness is Openness.UNKNOWN
        yield replace(one, is_cut=is_cut)


def _gaps(known: Sequence[Stretch], windows: Sequence[Window]) -> Iterator[Window]:
    """Answer when no pair at all was recorded, between the first and the last recorded moment."""
    sides = [one for one in known if one.role in {"prefill", "decode"}]
    told = sorted((one.begins_at, one.ends_at) for one in windows)
    if not told:
        return
    reached_at = min(one.begins_at for one in sides)
    last_at = max(one.ends_at for one in sides)
    for begins_at, ends_at in (*told, (last_at, last_at)):
        if begins_at > reached_at:
            yield Window(
                prefill=ANY,
                decode=ANY,
                openness=Openness.UNKNOWN,
                begins_at=reached_at,
                ends_at=begins_at,
                reason="no pair was recorded on both sides",
            )
        reached_at = max(reached_at, ends_at)


def _between(
    prefill: Sequence[Stretch],
    decode: Sequence[Stretch],
    begins_at: datetime,
    ends_at: datetime,
    version: str | None,
) -> Window:
    """Answer what the pair was between two edges, where neither side changes."""
    sides = [_covering(side, begins_at, ends_at) for side in (prefill, decode)]
    names = (prefill[0].instance, decode[0].instance)
    missing = [name for name, side in zip(names, sides, strict=True) if not side]
    band, openness, told = None, Openness.UNKNOWN, None
    reason = f"nothing is recorded of {' and '.join(missing)}"
    if not missing:
        # Records that overlap and differ both count: what widens the band is taken.
        refused = _limits(sides[0], is_least=True)
        admitted = _limits(sides[1], is_least=False)
        told = next((one.version for one in sides[0] if one.version), None) or version
        band, openness, reason = _judge(refused, admitted, told)
    return Window(
        prefill=names[0],
        decode=names[1],
        openness=openness,
        begins_at=begins_at,
        ends_at=ends_at,
        band=band,
        version=told,
        reason=reason,
    )


def _limits(side: Sequence[Stretch], *, is_least: bool) -> int | None:
    """Answer the limit that widens the band, or None where one of the records has none."""
    found = [
        first_refused(one.least_pool if is_least else one.most_pool, one.context) for one in side
    ]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    return min(known) if is_least else max(known)


def _judge(
    refused: int | None, refused_by_decode: int | None, version: str | None
) -> tuple[tuple[int, int] | None, Openness, str]:
    if refused is None or refused_by_decode is None:
        return None, Openness.UNKNOWN, "the context was not recorded, or not as one"
    last = refused_by_decode - 1
    if refused > last:
        return None, Openness.CLOSED, "no length that prefill refuses was admitted by decode"
    band = (refused, last)
    guards = place_version("sglang", version).guards
    if guards is None:
        return band, Openness.POSSIBLE, "the limits leave a band; the version is not known"
    if guards.close_exposure:
        return band, Openness.CLOSED, f"the limits leave a band, which {version} guards"
    return band, Openness.OPEN, f"prefill refused what decode admitted, and {version} has no guard"


def _covering(side: Sequence[Stretch], begins_at: datetime, ends_at: datetime) -> list[Stretch]:
    return [one for one in side if one.begins_at <= begins_at and ends_at <= one.ends_at]


def _is_like(one: Window, other: Window) -> bool:
    return (one.openness, one.band, one.version, one.reason) == (
        other.openness,
        other.band,
        other.version,
        other.reason,
    )
