"""The timeline is append-only, whole under concurrency, and shows what was done behind it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import ProgrammingError, connection
from django.db.models import ProtectedError

from common.chain import GENESIS
from common.clock import now
from common.roles import NotAllowed
from incidents.contract import EventKind, IncidentError, Source
from incidents.models import Incident, TimelineEvent
from incidents.selectors import chain_holds_hash, chain_state, chain_verify, timeline
from incidents.services import event_record, note_add
from tests.incidents.builders import make_deployment, make_incident

#: Foreign keys are checked at the commit; a table with checks pending takes no ALTER or TRUNCATE.
SETTLE = "SET CONSTRAINTS ALL IMMEDIATE"
THREADS = 8
EACH = 5


def record(
    incident: Incident,
    text: str = "seen",
    *,
    body: Mapping[str, object] | None = None,
    occurred_at: datetime | None = None,
) -> TimelineEvent:
    return event_record(
        incident=incident,
        source=Source.SYSTEM,
        actor="test",
        kind="seen",
        text=text,
        body=body,
        occurred_at=occurred_at,
    )


def behind_the_trigger(sql: str, *parameters: str | int) -> None:
    """Do what only the owner of the table could do."""
    with connection.cursor() as cursor:
        cursor.execute(SETTLE)
        cursor.execute("ALTER TABLE incidents_timelineevent DISABLE TRIGGER USER")
        cursor.execute(sql, parameters)
        cursor.execute("ALTER TABLE incidents_timelineevent ENABLE TRIGGER USER")


@pytest.fixture
def incident(db: None) -> Incident:  # noqa: ARG001 - wanted for what it does
    made = make_incident()
    for text in ("one", "two", "three"):
        record(made, text, body={"figure": 10_618, "ratio": 0.648, "band": [10_618, 16_377]})
    return made


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE incidents_timelineevent SET text = 'another'",
        "DELETE FROM incidents_timelineevent",
        "TRUNCATE incidents_timelineevent",
    ],
)
@pytest.mark.usefixtures("incident")
def test_entries_are_neither_changed_nor_removed(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(SETTLE)
        with pytest.raises(ProgrammingError, match="append-only"):
            cursor.execute(sql)


def test_nothing_cascades_into_the_timeline(incident: Incident) -> None:
    with pytest.raises(ProtectedError):
        incident.delete()
    with pytest.raises(ProtectedError):
        incident.deployment.delete()
    assert TimelineEvent.objects.filter(incident=incident).count() == 4


def test_entries_follow_each_other_from_the_first(incident: Incident) -> None:
    entries = timeline(incident)
    assert [one.sequence for one in entries] == [1, 2, 3, 4]
    assert [one.previous for one in entries] == [GENESIS, *(one.digest for one in entries[:-1])]
    assert chain_verify(incident) is None
    state = chain_state(incident)
    assert (state.entries, state.head, state.holds) == (4, entries[-1].digest, True)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("text", "another"),
        ("body", '{"figure": 10619}'),
        ("actor", "somebody else"),
        ("kind", "note"),
        ("source", "person"),
        ("supersedes", 1),
        ("occurred_at", "2026-09-09 00:00:00+00"),
        ("recorded_at", "2026-09-09 00:00:00+00"),
        ("body_digest", "0" * 64),
        ("previous", "0" * 64),
        ("digest", "0" * 64),
    ],
)
def test_a_change_behind_the_trigger_breaks_the_chain_there(
    incident: Incident, column: str, value: str | int
) -> None:
    behind_the_trigger(
        f"UPDATE incidents_timelineevent SET {column} = %s WHERE sequence = 3",  # noqa: S608
        value,
    )
    broken = chain_verify(incident)
    assert broken is not None
    assert broken.sequence == 3


@pytest.mark.parametrize("sequence", [1, 2, 4])
def test_a_removed_entry_is_missed_even_at_the_end(incident: Incident, sequence: int) -> None:
    behind_the_trigger("DELETE FROM incidents_timelineevent WHERE sequence = %s", sequence)
    broken = chain_verify(incident)
    assert broken is not None
    assert broken.sequence == sequence
    assert "missing" in broken.reason


def test_an_emptied_timeline_is_missed(incident: Incident) -> None:
    behind_the_trigger("DELETE FROM incidents_timelineevent")
    assert not chain_state(incident).holds


def test_the_end_that_the_incident_names_is_the_end_of_the_chain(incident: Incident) -> None:
    Incident.objects.filter(pk=incident.pk).update(head_digest="1" * 64)
    assert not chain_state(incident).holds


def test_a_text_erased_on_the_record_leaves_the_chain_whole(incident: Incident) -> None:
    erase = "UPDATE incidents_timelineevent SET text = '', body = '{}' WHERE sequence = 2"
    behind_the_trigger(erase)
    broken = chain_verify(incident)
    assert broken is not None
    assert broken.sequence == 2
    event_record(
        incident=incident,
        source=Source.SYSTEM,
        actor="owner",
        kind=EventKind.ERASED,
        text="entry 2 held what nobody may keep",
        supersedes=2,
    )
    assert chain_verify(incident) is None
    assert timeline(incident)[1].is_erased


def test_an_exported_hash_is_found_again(incident: Incident) -> None:
    head = chain_state(incident).head
    record(incident, "later")
    assert chain_holds_hash(incident, head)
    assert not chain_holds_hash(incident, "0" * 64)


@pytest.mark.django_db(transaction=True)
def test_entries_written_at_once_keep_the_sequence_whole() -> None:
    incident = make_incident()

    def write(name: str) -> None:
        try:
            for count in range(EACH):
                record(incident, f"{name} {count}")
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(write, [f"thread {number}" for number in range(THREADS)]))
    entries = timeline(incident)
    assert [one.sequence for one in entries] == list(range(1, THREADS * EACH + 2))
    assert chain_verify(incident) is None


@pytest.mark.django_db(transaction=True)
def test_incidents_opened_at_once_are_numbered_without_gap() -> None:
    deployments = [make_deployment(f"glm-{number}") for number in range(THREADS)]

    def opened(number: int) -> int:
        try:
            return make_incident(deployments[number]).number
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as threads:
        numbers = list(threads.map(opened, range(THREADS)))
    assert sorted(numbers) == list(range(1, THREADS + 1))


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_entry_needs_a_text(incident: Incident, text: str) -> None:
    with pytest.raises(IncidentError, match="text"):
        record(incident, text)


def test_a_machine_s_long_text_is_cut_and_says_so(incident: Incident) -> None:
    event = record(incident, "x" * 20_000)
    assert len(event.text) == 10_000
    assert event.text.endswith("[cut, 20,000 characters in all]")


def test_nothing_occurs_in_the_future(incident: Incident) -> None:
    with pytest.raises(IncidentError, match="future"):
        record(incident, occurred_at=now() + timedelta(hours=1))


def test_occurred_and_recorded_are_kept_apart(incident: Incident) -> None:
    yesterday = now() - timedelta(days=1)
    event = record(incident, occurred_at=yesterday)
    assert event.occurred_at == yesterday
    assert event.recorded_at > yesterday + timedelta(hours=23)


def test_a_moment_without_a_zone_is_refused(incident: Incident, responder: User) -> None:
    naive = now().replace(tzinfo=None)
    with pytest.raises(IncidentError, match="time zone"):
        note_add(person=responder, incident=incident, text="seen", occurred_at=naive)


def test_a_correction_supersedes_and_the_first_stays(incident: Incident, responder: User) -> None:
    first = note_add(person=responder, incident=incident, text="at 13:20")
    second = note_add(
        person=responder, incident=incident, text="at 13:22", supersedes=first.sequence
    )
    shown = {one.sequence: one for one in timeline(incident)}
    assert shown[first.sequence].text == "at 13:20"
    assert shown[first.sequence].superseded_by == second.sequence
    with pytest.raises(IncidentError, match=f"corrected by entry {second.sequence}"):
        note_add(person=responder, incident=incident, text="no", supersedes=first.sequence)


@pytest.mark.parametrize("sequence", [1, 0, 99])
def test_only_a_note_is_corrected(incident: Incident, responder: User, sequence: int) -> None:
    with pytest.raises(IncidentError):
        note_add(person=responder, incident=incident, text="no", supersedes=sequence)


def test_a_note_needs_a_role(incident: Incident, outsider: User) -> None:
    with pytest.raises(NotAllowed, match="responder or commander"):
        note_add(person=outsider, incident=incident, text="seen")
    assert len(timeline(incident)) == 4


def test_a_person_s_long_text_is_refused(incident: Incident, responder: User) -> None:
    with pytest.raises(IncidentError, match="evidence"):
        note_add(person=responder, incident=incident, text="x" * 10_001)
