"""Runs: frozen steps, second person, retries, deadlines, one effect after a killed worker."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import InternalError, ProgrammingError, connection

from common.clock import now
from common.leases import LEASE_LASTS
from common.roles import NotAllowed
from incidents.models import Incident
from runbooks.advance import run_advance
from runbooks.contract import BOOKS, RunError
from runbooks.models import Run, RunState, RunStep, StepState
from runbooks.services import (
    run_abort,
    run_start,
    step_approve,
    step_confirm,
    step_retry,
    step_start,
)
from tests.runbooks.conftest import World

pytestmark = pytest.mark.django_db


def step(run: Run, title: str) -> RunStep:
    return run.steps.get(title=title)


@pytest.fixture
def run(world: World, incident: Incident, responder: User) -> Run:  # noqa: ARG001 - order of set-up
    return run_start(person=responder, incident=incident, book="made_up")


def advance_to(run: Run, title: str, responder: User, commander: User) -> RunStep:
    """Bring a run up to the step with this title."""
    run_advance(run_pk=run.pk)
    if title != "started":
        step_start(person=responder, step=step(run, "started"))
        run_advance(run_pk=run.pk)
    if title == "told":
        step_approve(person=commander, step=step(run, "approved"))
        run_advance(run_pk=run.pk)
    return step(run, title)


def test_a_person_without_a_role_starts_nothing(
    world: World,  # noqa: ARG001 - the runbook
    incident: Incident,
    outsider: User,
) -> None:
    with pytest.raises(NotAllowed):
        run_start(person=outsider, incident=incident, book="made_up")
    assert not Run.objects.exists()


def test_a_run_keeps_its_own_steps_when_the_book_changes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(BOOKS._members, "made_up")  # noqa: SLF001 - the registry's store
    titles = list(run.steps.values_list("title", flat=True))
    assert titles == ["first", "started", "approved", "told"]
    assert run.version == 3


def test_an_incident_has_one_active_run(run: Run, responder: User) -> None:
    with pytest.raises(RunError, match="active run"):
        run_start(person=responder, incident=run.incident, book="made_up")


def test_the_whole_run_waits_where_people_are_needed(
    run: Run, world: World, responder: User, commander: User
) -> None:
    assert step(run, "first").state == StepState.READY
    run_advance(run_pk=run.pk)
    assert step(run, "started").state == StepState.WAITING
    run_advance(run_pk=run.pk)
    assert world.acts == ["first"]
    step_start(person=responder, step=step(run, "started"))
    run_advance(run_pk=run.pk)
    assert step(run, "approved").state == StepState.WAITING
    step_approve(person=commander, step=step(run, "approved"))
    run_advance(run_pk=run.pk)
    assert world.acts == ["first", "started", "approved"]
    step_confirm(person=responder, step=step(run, "told"), note="Customers told.")
    run.refresh_from_db()
    assert run.state == RunState.DONE


def test_the_starter_of_a_run_cannot_approve(
    run: Run, world: World, responder: User, commander: User
) -> None:
    waiting = advance_to(run, "approved", responder, commander)
    with pytest.raises(RunError, match="second person"):
        step_approve(person=responder, step=waiting)
    run_advance(run_pk=run.pk)
    assert "approved" not in world.acts


def test_an_approval_cannot_be_skipped_by_a_start(
    run: Run, responder: User, commander: User
) -> None:
    waiting = advance_to(run, "approved", responder, commander)
    with pytest.raises(RunError, match="approval"):
        step_start(person=responder, step=waiting)


def test_a_failed_step_undoes_itself_and_stops_the_run(run: Run, world: World) -> None:
    world.breaks = "the router refused"
    run_advance(run_pk=run.pk)
    failed = step(run, "first")
    assert (failed.state, failed.outcome) == (StepState.FAILED, "the router refused")
    assert world.acts == ["undo first"]
    run.refresh_from_db()
    assert run.state == RunState.FAILED


def test_an_undo_that_fails_is_tried_until_it_holds(run: Run, world: World) -> None:
    world.breaks, world.undo_breaks = "no answer", "router down"
    run_advance(run_pk=run.pk)
    assert step(run, "first").state == StepState.RUNNING
    assert "router down" in step(run, "first").progress
    world.breaks, world.undo_breaks = "", ""
    run_advance(run_pk=run.pk)
    failed = step(run, "first")
    assert (failed.state, failed.outcome) == (StepState.FAILED, "no answer")
    assert world.acts == ["undo first"]


def test_a_step_tried_again_needs_its_approval_anew(
    run: Run, world: World, responder: User, commander: User
) -> None:
    waiting = advance_to(run, "approved", responder, commander)
    step_approve(person=commander, step=waiting)
    world.breaks = "no"
    run_advance(run_pk=run.pk)
    world.breaks = ""
    step_retry(person=responder, step=step(run, "approved"))
    assert step(run, "approved").state == StepState.WAITING
    run_advance(run_pk=run.pk)
    assert "approved" not in world.acts
    step_approve(person=commander, step=step(run, "approved"))
    run_advance(run_pk=run.pk)
    assert "approved" in world.acts


def test_a_step_that_overruns_ends_with_the_reason(run: Run, world: World) -> None:
    world.is_ready = False
    run_advance(run_pk=run.pk)
    assert step(run, "first").state == StepState.RUNNING
    with time_machine.travel(now() + timedelta(minutes=31), tick=False):
        run_advance(run_pk=run.pk)
    failed = step(run, "first")
    assert failed.state == StepState.FAILED
    assert "30 min" in failed.outcome
    assert "waiting for the world" in failed.outcome


def test_a_step_of_a_killed_worker_goes_on_with_one_effect(run: Run, world: World) -> None:
    world.is_ready = False
    run_advance(run_pk=run.pk)
    RunStep.objects.filter(run=run, title="first").update(
        lease_owner="dead", lease_until=now() + LEASE_LASTS
    )
    world.is_ready = True
    assert not run_advance(run_pk=run.pk)
    assert step(run, "first").state == StepState.RUNNING
    with time_machine.travel(now() + LEASE_LASTS + timedelta(seconds=1), tick=False):
        run_advance(run_pk=run.pk)
    assert step(run, "first").state == StepState.DONE
    assert world.acts == ["first"]


def test_only_a_commander_aborts(run: Run, responder: User, commander: User) -> None:
    with pytest.raises(NotAllowed):
        run_abort(person=responder, run=run, reason="tired")
    deployment = run.incident.deployment
    deployment.taken_out.create(
        url="http://p0", worker={}, taken_out_by="run 1", return_ordered_at=now()
    )
    run_abort(person=commander, run=run, reason="false alarm")
    run.refresh_from_db()
    assert run.state == RunState.ABORTED
    assert deployment.taken_out.get().return_ordered_at is None, "what is out stays out"
    assert not run_advance(run_pk=run.pk)


def test_a_manual_step_wants_words(run: Run, responder: User, commander: User) -> None:
    waiting = advance_to(run, "told", responder, commander)
    with pytest.raises(RunError, match="sentence"):
        step_confirm(person=responder, step=waiting, note="  ")


def test_approvals_are_append_only(run: Run, responder: User, commander: User) -> None:
    step_approve(person=commander, step=advance_to(run, "approved", responder, commander))
    with pytest.raises((ProgrammingError, InternalError)), connection.cursor() as cursor:
        cursor.execute("DELETE FROM runbooks_approval")


def test_the_run_writes_itself_to_the_timeline(run: Run, responder: User, commander: User) -> None:
    advance_to(run, "approved", responder, commander)
    kinds = list(run.incident.events.filter(source="run").values_list("kind", flat=True))
    assert kinds == ["run_started", "step_done", "step_started", "step_done"]
