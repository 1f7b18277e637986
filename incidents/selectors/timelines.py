"""Reads timelines: entries with their corrections, the hash chain, and the moves in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.chain import Break, Link, verify
from incidents.contract import EventKind, Status
from incidents.entries import Header, digest_content
from incidents.impact import StatusChange
from incidents.models import Incident, TimelineEvent
from incidents.postmortem import ChainState, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """The entries of one incident with the end that the incident names."""

    events: tuple[TimelineEvent, ...]
    head_sequence: int
    head_digest: str


def timeline(incident: Incident) -> tuple[Entry, ...]:
    """Answer all entries in the order in which they were recorded, corrections marked."""
    events = list(TimelineEvent.objects.filter(incident=incident).order_by("sequence"))
    corrections = {
        event.supersedes: event.sequence for event in events if event.supersedes is not None
    }
    return tuple(_entry_of(event, corrections.get(event.sequence)) for event in events)


def header_of(incident: Incident, event: TimelineEvent) -> Header:
    """Answer the header of an event as its chain link holds it."""
    return Header(
        incident=incident.reference,
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
        source=event.source,
        actor=event.actor,
        kind=event.kind,
        supersedes=event.supersedes,
    )


def chain_verify(incident: Incident) -> Break | None:
    """Answer where the timeline is not as it was written, or None where all of it holds."""
    return _first_break(_read_chain(incident))


def chain_state(incident: Incident) -> ChainState:
    """Answer entries, last hash and first break of the chain, as exports carry them."""
    chain = _read_chain(incident)
    broken = _first_break(chain)
    return ChainState(
        entries=len(chain.events),
        head=chain.head_digest,
        break_sequence=broken.sequence if broken else None,
        break_reason=broken.reason if broken else "",
    )


def chain_holds_hash(incident: Incident, digest: str) -> bool:
    """Answer whether an exported head hash is still one of the chain's links."""
    return TimelineEvent.objects.filter(incident=incident, digest=digest.lower()).exists()


def status_changes(incident: Incident) -> tuple[StatusChange, ...]:
    """Answer the incident's moves, in the order in which they were recorded."""
    kinds = (EventKind.DECLARED, EventKind.MOVED, EventKind.TAKEN_BACK, EventKind.CLOSED)
    events = TimelineEvent.objects.filter(incident=incident, kind__in=kinds).order_by("sequence")
    return tuple(
        StatusChange(
            at=event.occurred_at,
            before=Status(event.body["before"]),
            after=Status(event.body["after"]),
        )
        for event in events
        if "before" in event.body
    )


def _entry_of(event: TimelineEvent, superseded_by: int | None) -> Entry:
    return Entry(
        sequence=event.sequence,
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
        source=event.source,
        actor=event.actor,
        kind=event.kind,
        text=event.text,
        supersedes=event.supersedes,
        superseded_by=superseded_by,
        is_erased=_is_erased(event),
        body_digest=event.body_digest,
        previous=event.previous,
        digest=event.digest,
    )


def _is_erased(event: TimelineEvent) -> bool:
    # No entry is written without a text, so an empty one has lost it.
    return not event.text and not event.body


def _read_chain(incident: Incident) -> _Chain:
    # One statement sees entries and head at one moment, whoever writes meanwhile.
    events = tuple(
        TimelineEvent.objects.filter(incident=incident)
        .select_related("incident")
        .order_by("sequence")
    )
    holder = events[0].incident if events else Incident.objects.get(pk=incident.pk)
    return _Chain(events=events, head_sequence=holder.head_sequence, head_digest=holder.head_digest)


def _first_break(chain: _Chain) -> Break | None:
    broken = verify(_link_of(event.incident, event) for event in chain.events)
    found = [*([broken] if broken else []), *_content_breaks(chain.events)]
    return min(found, key=lambda one: one.sequence) if found else _end_break(chain)


def _link_of(incident: Incident, event: TimelineEvent) -> Link:
    return Link(
        sequence=event.sequence,
        header=header_of(incident, event).fields(),
        body_digest=event.body_digest,
        previous=event.previous,
        digest=event.digest,
    )


def _content_breaks(events: Sequence[TimelineEvent]) -> Iterator[Break]:
    told = {event.supersedes for event in events if event.kind == EventKind.ERASED}
    for event in events:
        if _is_erased(event):
            if event.sequence not in told:
                yield Break(sequence=event.sequence, reason="its text is gone and nobody said why")
        elif digest_content(text=event.text, body=event.body) != event.body_digest:
            yield Break(
                sequence=event.sequence, reason="its text or details differ from their hash"
            )


def _end_break(chain: _Chain) -> Break | None:
    """Answer a break where entries are missing at the end, which no later link would tell."""
    last = chain.events[-1] if chain.events else None
    sequence = last.sequence if last else 0
    if last is None or sequence < chain.head_sequence:
        return Break(sequence=sequence + 1, reason=f"entry {sequence + 1} is missing")
    if (sequence, last.digest) != (chain.head_sequence, chain.head_digest):
        return Break(sequence=sequence, reason="it is not the last entry that the incident names")
    return None
