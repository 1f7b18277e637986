"""How an incident moves, goes back, and closes."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product

import pytest
import time_machine
from django.contrib.auth.models import User

from common.clock import now
from common.roles import NotAllowed
from common.verdicts import Verdict
from fleet.models import OutOfRotation
from fleet.rotation_rows import RotationChange, RotationWatch
from fleet.staying_out import NewsKind
from incidents.contract import FOLLOWS, IncidentError, Source, Status, is_reached
from incidents.models import Incident
from incidents.selectors import chain_verify, incident_figures, timeline
from incidents.services import (
    containments_recheck,
    incident_close,
    incident_move_by_hand,
    incident_take_back,
    restores_recheck,
)
from probes.models import Way
from tests.incidents.builders import (
    bring_to,
    make_audit,
    make_check,
    make_incident,
    make_proof,
    move,
)

pytestmark = pytest.mark.django_db
FORWARD = {
    (Status.DECLARED, Status.CONTAINED),
    (Status.CONTAINED, Status.MITIGATED),
    (Status.MITIGATED, Status.RESTORED),
}


def take_back(incident: Incident) -> Incident:
    return incident_take_back(
        incident=incident, reason="the canary failed", actor="run 1", source=Source.RUN
    )


def take_out(incident: Incident, url: str, **columns: object) -> OutOfRotation:
    return OutOfRotation.objects.create(
        deployment=incident.deployment,
        url=url,
        worker={},
        taken_out_by="run 1",
        **{"confirmed_at": now(), **columns},
    )


def at(status: Status) -> Incident:
    incident = bring_to(make_incident(), status)
    assert incident.status == status
    return incident


@pytest.mark.parametrize(
    ("before", "to"),
    [pair for pair in product(list(Status)[:-1], Status) if pair[0] is not pair[1]],
)
def test_a_run_moves_forward_one_step_and_no_other_way(before: Status, to: Status) -> None:
    incident = at(before)
    events = len(timeline(incident))
    if (before, to) in FORWARD:
        assert move(incident, to).status == to
        assert len(timeline(incident)) == events + 1
    else:
        with pytest.raises(IncidentError, match=incident.reference):
            move(incident, to)
        assert Incident.objects.get().status == before


def test_what_follows_what_is_one_step_forward_or_back() -> None:
    for before, after in FOLLOWS.items():
        forward = {one for one in after if is_reached(before, status=one)}
        assert forward <= {*list(Status)[list(Status).index(before) + 1 :][:1], Status.CLOSED}


def test_a_move_repeated_after_a_killed_worker_has_one_effect() -> None:
    incident = at(Status.DECLARED)
    moved = move(incident, Status.CONTAINED)
    again = move(incident, Status.CONTAINED)
    assert again.contained_at == moved.contained_at
    assert [one.kind for one in timeline(incident)].count("moved") == 1


def test_a_move_needs_a_reason_and_a_moment_after_the_last() -> None:
    incident = at(Status.CONTAINED)
    assert incident.contained_at is not None
    with pytest.raises(IncidentError, match="after that"):
        move(incident, Status.MITIGATED, at=incident.contained_at - timedelta(seconds=1))
    with pytest.raises(IncidentError, match="say why"):
        incident_take_back(incident=incident, reason=" ", actor="run 1", source=Source.RUN)
    with pytest.raises(IncidentError, match="future"):
        move(incident, Status.MITIGATED, at=now() + timedelta(hours=1))


def test_containment_ends_the_impact() -> None:
    incident = at(Status.CONTAINED)
    assert incident.impact_end_at == incident.contained_at


@pytest.mark.parametrize("status", [Status.RESTORED, Status.MITIGATED])
def test_what_serves_again_goes_back_to_declared(status: Status) -> None:
    incident = take_back(at(status))
    assert incident.status == Status.DECLARED
    assert incident.impact_end_at is None


@pytest.mark.parametrize("status", [Status.RESTORED, Status.MITIGATED])
def test_what_is_still_out_goes_back_to_contained(status: Status) -> None:
    incident = at(status)
    take_out(incident, "http://127.0.0.1:1")
    assert take_back(incident).status == Status.CONTAINED


def test_one_worker_that_is_back_in_is_not_contained() -> None:
    incident = at(Status.RESTORED)
    take_out(incident, "http://127.0.0.1:1")
    take_out(incident, "http://127.0.0.1:2", put_back_at=now())
    assert take_back(incident).status == Status.DECLARED


def test_a_worker_taken_out_again_is_contained() -> None:
    incident = at(Status.RESTORED)
    take_out(incident, "http://127.0.0.1:1", put_back_at=now())
    take_out(incident, "http://127.0.0.1:1")
    assert take_back(incident).status == Status.CONTAINED


def test_a_removal_that_nobody_confirmed_contains_nothing() -> None:
    incident = at(Status.RESTORED)
    take_out(incident, "http://127.0.0.1:1", confirmed_at=None)
    assert take_back(incident).status == Status.DECLARED


def test_a_worker_put_back_long_before_does_not_count() -> None:
    incident = at(Status.RESTORED)
    take_out(incident, "http://127.0.0.1:1", put_back_at=now() - timedelta(days=9))
    take_out(incident, "http://127.0.0.1:2")
    assert take_back(incident).status == Status.CONTAINED


def test_taking_back_twice_goes_back_once() -> None:
    incident = at(Status.RESTORED)
    assert take_back(take_back(incident)).status == Status.DECLARED
    assert [one.kind for one in timeline(incident)].count("taken_back") == 1


def test_moments_stay_on_the_row_and_stop_to_count() -> None:
    incident = take_back(at(Status.RESTORED))
    assert incident.restored_at is not None
    figures = incident_figures(incident)
    assert figures.moments.restored_at is None
    assert figures.moments.contained_at is None
    assert {one.name: one.span for one in figures.durations}["restore"] is None


def test_a_failed_restore_shows_as_a_window_of_impact_of_its_own() -> None:
    incident = take_back(at(Status.RESTORED))
    first, second = incident_figures(incident).windows
    assert first.end_at == incident.contained_at
    assert (second.start_at, second.end_at) == (incident.restored_at, None)
    incident = move(incident, Status.CONTAINED)
    assert incident_figures(incident).windows[1].end_at == incident.contained_at


def after_restore(incident: Incident) -> datetime:
    assert incident.restored_at is not None
    return incident.restored_at + timedelta(microseconds=1)


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.PASS])
def test_a_required_canary_that_does_not_pass_takes_a_restore_back(verdict: Verdict) -> None:
    incident = at(Status.RESTORED)
    audit = make_audit(incident.deployment, verdict, ended_at=after_restore(incident))
    make_check(audit, verdict)
    for _ in range(2):
        restores_recheck()
    incident.refresh_from_db()
    assert incident.status == Status.DECLARED
    backs = [one for one in timeline(incident) if one.kind == "taken_back"]
    assert [one.source for one in backs] == [Source.AUDIT]
    assert f"audit {audit.pk}" in backs[0].text


@pytest.mark.parametrize(
    ("verdict", "canary", "required"),
    [
        (Verdict.PASS, Verdict.PASS, True),
        (Verdict.PASS, Verdict.FAIL, False),
        (Verdict.INCONCLUSIVE, Verdict.PASS, True),
    ],
)
def test_a_restore_stands_where_its_canaries_pass(
    verdict: Verdict, canary: Verdict, *, required: bool
) -> None:
    incident = at(Status.RESTORED)
    audit = make_audit(incident.deployment, verdict, ended_at=after_restore(incident))
    make_check(audit, canary, required=required)
    restores_recheck()
    incident.refresh_from_db()
    assert incident.status == Status.RESTORED


def test_a_gate_that_fails_takes_a_restore_back() -> None:
    incident = at(Status.RESTORED)
    audit = make_audit(incident.deployment, ended_at=after_restore(incident), way=Way.NONE)
    make_check(audit, check="pair_exposure")
    restores_recheck()
    incident.refresh_from_db()
    assert incident.status == Status.DECLARED


def test_what_failed_before_the_restore_does_not_count() -> None:
    incident = at(Status.RESTORED)
    assert incident.restored_at is not None
    make_check(make_audit(incident.deployment, ended_at=incident.restored_at))
    restores_recheck()
    incident.refresh_from_db()
    assert incident.status == Status.RESTORED


def test_closing_needs_a_restore_a_proof_and_a_commander(responder: User, commander: User) -> None:
    incident = at(Status.RESTORED)
    with pytest.raises(IncidentError, match="no standing proof"):
        incident_close(person=commander, incident=incident, summary="fixed")
    make_proof(incident.deployment, granted_at=after_restore(incident))
    with pytest.raises(NotAllowed):
        incident_close(person=responder, incident=incident, summary="fixed")
    with pytest.raises(IncidentError, match="say why"):
        incident_close(person=commander, incident=incident, summary=" ")
    closed = incident_close(person=commander, incident=incident, summary="fixed")
    assert closed.status == Status.CLOSED
    assert closed.closed_at is not None
    assert chain_verify(closed) is None


@pytest.mark.parametrize("status", [Status.DECLARED, Status.CONTAINED, Status.MITIGATED])
def test_what_is_under_way_is_not_closed(status: Status, commander: User) -> None:
    incident = at(status)
    make_proof(incident.deployment)
    with pytest.raises(IncidentError, match="closes once it is restored"):
        incident_close(person=commander, incident=incident, summary="fixed")


def test_a_proof_does_not_outweigh_a_check_that_failed_since(commander: User) -> None:
    incident = at(Status.RESTORED)
    make_check(make_audit(incident.deployment, ended_at=after_restore(incident)))
    make_proof(incident.deployment)
    with pytest.raises(IncidentError, match="does not let it stand"):
        incident_close(person=commander, incident=incident, summary="fixed")


def test_a_false_alarm_closes_from_triage_with_a_proof(commander: User) -> None:
    incident = make_incident()
    make_proof(incident.deployment)
    closed = incident_close(person=commander, incident=incident, summary="our own marker")
    assert "false alarm: our own marker" in timeline(closed)[-1].text
    assert incident_figures(closed).windows == ()


def test_a_closed_incident_stays_closed(commander: User) -> None:
    incident = make_incident()
    make_proof(incident.deployment)
    closed = incident_close(person=commander, incident=incident, summary="our own marker")
    with pytest.raises(IncidentError, match="closed"):
        take_back(closed)
    assert make_incident(incident.deployment).number == 2


def test_only_a_commander_moves_by_hand(responder: User, commander: User) -> None:
    incident = at(Status.DECLARED)
    with pytest.raises(NotAllowed):
        incident_move_by_hand(
            person=responder, incident=incident, to=Status.CONTAINED, reason="switched off"
        )
    moved = incident_move_by_hand(
        person=commander, incident=incident, to=Status.CONTAINED, reason="switched off"
    )
    assert moved.status == Status.CONTAINED
    assert timeline(moved)[-1].actor == commander.get_username()


def change_of(incident: Incident, kind: str, **columns: object) -> RotationChange:
    moment = now()
    return RotationChange.objects.create(
        deployment=incident.deployment,
        kind=kind,
        text="the router lists http://p0 again",
        urls=["http://p0"],
        **{"at": moment, "since_at": moment, **columns},
    )


def listed_again(incident: Incident, **columns: object) -> RotationChange:
    RotationWatch.objects.update_or_create(
        deployment=incident.deployment, defaults={"listed": ["http://p0"]}
    )
    return change_of(incident, NewsKind.LISTED_AGAIN, **columns)


@pytest.mark.parametrize("status", [Status.CONTAINED, Status.MITIGATED])
def test_a_worker_that_is_listed_again_takes_the_incident_back(status: Status) -> None:
    incident = at(status)
    take_out(incident, "http://p0")
    listed_again(incident)
    for _ in range(2):
        containments_recheck()
    incident.refresh_from_db()
    assert (incident.status, incident.impact_end_at) == (Status.DECLARED, None)
    told = [one.kind for one in timeline(incident)[-2:]]
    assert told == ["rotation_watched", "taken_back"]
    assert "lists http://p0 again" in timeline(incident)[-1].text
    assert chain_verify(incident) is None


def test_impact_counts_from_the_last_look_that_found_them_out() -> None:
    incident = at(Status.CONTAINED)
    take_out(incident, "http://p0")
    with time_machine.travel(now() + timedelta(minutes=5), tick=False):
        since_at = now() - timedelta(minutes=2)
        listed_again(incident, since_at=since_at)
        containments_recheck()
        window = incident_figures(Incident.objects.get(pk=incident.pk)).windows[-1]
    assert (window.start_at, window.end_at) == (since_at, None)


def test_impact_never_counts_from_before_the_containment() -> None:
    incident = at(Status.CONTAINED)
    take_out(incident, "http://p0")
    listed_again(incident, since_at=now() - timedelta(days=1))
    containments_recheck()
    assert timeline(incident)[-1].occurred_at == incident.contained_at


def test_an_unreadable_router_is_told_and_moves_nothing() -> None:
    incident = at(Status.CONTAINED)
    take_out(incident, "http://p0")
    change_of(incident, NewsKind.UNREADABLE)
    containments_recheck()
    incident.refresh_from_db()
    assert incident.status == Status.CONTAINED
    assert timeline(incident)[-1].kind == "rotation_watched"


def test_while_the_router_is_unreadable_nothing_counts_as_still_out() -> None:
    incident = at(Status.MITIGATED)
    take_out(incident, "http://p0")
    RotationWatch.objects.create(deployment=incident.deployment, is_problem_told=True)
    assert take_back(incident).status == Status.DECLARED


def test_what_is_on_its_way_back_does_not_count_as_still_out() -> None:
    incident = at(Status.MITIGATED)
    take_out(incident, "http://p0", return_ordered_at=now())
    assert take_back(incident).status == Status.DECLARED


def test_what_was_before_the_opening_is_not_told() -> None:
    incident = make_incident()
    change_of(incident, NewsKind.LISTED_AGAIN, at=incident.opened_at - timedelta(seconds=1))
    before = len(timeline(incident))
    containments_recheck()
    assert len(timeline(incident)) == before
