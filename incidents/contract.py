"""States of an incident, what may follow what, and what an exporter must be."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from common.registry import Registry
from incidents.postmortem import Postmortem


class Status(StrEnum):
    """Where an incident stands, in the order in which it is worked off."""

    TRIAGE = "triage"
    DECLARED = "declared"
    CONTAINED = "contained"
    MITIGATED = "mitigated"
    RESTORED = "restored"
    CLOSED = "closed"


#: What may follow what. Backward moves are real: a failed check after restore takes it back.
FOLLOWS: dict[Status, frozenset[Status]] = {
    Status.TRIAGE: frozenset({Status.DECLARED, Status.CLOSED}),
    Status.DECLARED: frozenset({Status.CONTAINED}),
    Status.CONTAINED: frozenset({Status.MITIGATED, Status.DECLARED}),
    Status.MITIGATED: frozenset({Status.RESTORED, Status.CONTAINED, Status.DECLARED}),
    Status.RESTORED: frozenset({Status.CLOSED, Status.CONTAINED, Status.DECLARED}),
    Status.CLOSED: frozenset(),
}

_ORDER = tuple(Status)


def is_reached(moment_of: Status, *, status: Status) -> bool:
    """Answer whether an incident in ``status`` still stands at ``moment_of`` or beyond it."""
    return _ORDER.index(status) >= _ORDER.index(moment_of)


class Source(StrEnum):
    """Who or what wrote a timeline event."""

    PERSON = "person"
    AUDIT = "audit"
    CANARY = "canary"
    RUN = "run"
    SYSTEM = "system"


class EventKind(StrEnum):
    """Kinds of event that this floor writes; runs write kinds of their own."""

    OPENED = "opened"
    JOINED = "finding_joined"
    DECLARED = "declared"
    COMMAND_TAKEN = "command_taken"
    MOVED = "moved"
    TAKEN_BACK = "taken_back"
    CLOSED = "closed"
    NOTE = "note"
    EVIDENCE_KEPT = "evidence_kept"
    UNSEALED = "unsealed"
    AUDIT_ENDED = "audit_ended"
    MARKERS_FOUND = "markers_found"
    ERASED = "entry_erased"
    ROTATION_WATCHED = "rotation_watched"


class IncidentError(Exception):
    """What was asked cannot be done to this incident; the text says why and what can."""


class IncidentUnknown(IncidentError):
    """No incident of that name is there for this person."""


class Exporter(Protocol):
    """Renders a post-mortem. Pure; ``media_type`` and ``suffix`` name what it makes.

    It shows what the post-mortem holds and looks nothing up, so that keys, prompts and answers
    cannot come in.
    """

    title: str
    media_type: str
    suffix: str

    def render(self, postmortem: Postmortem) -> str:
        """Answer the text of the export."""
        ...


EXPORTERS: Registry[Exporter] = Registry("export format")
