"""When requests may have been hit: windows between an incident's moves. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from incidents.contract import Status
from incidents.postmortem import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChange:
    """One move of an incident."""

    at: datetime
    before: Status
    after: Status


def exposure_windows(
    start_at: datetime | None, changes: Iterable[StatusChange]
) -> tuple[Window, ...]:
    """Answer the windows of possible impact, oldest first; the last may still be open.

    A restore that was taken back served the fault again from the restore on, whatever was believed
    in between. A false alarm, closed from triage, has no window.
    """
    windows: list[Window] = []
    open_since, is_open = start_at, True
    restored_at: datetime | None = None
    for change in changes:
        if change.after is Status.RESTORED:
            restored_at = change.at
        if change.before is Status.RESTORED and change.after is not Status.CLOSED:
            open_since, is_open = restored_at, True
        elif change.after is Status.DECLARED and change.before is not Status.TRIAGE:
            open_since, is_open = change.at, True
        if change.after is Status.CONTAINED and is_open:
            windows.append(Window(start_at=open_since, end_at=change.at))
            is_open = False
        if change.after is Status.CLOSED:
            is_open = False
    if is_open:
        windows.append(Window(start_at=open_since, end_at=None))
    return tuple(windows)
