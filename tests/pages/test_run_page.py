from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from incidents.contract import Status
from incidents.models import Incident
from runbooks.models import Approval, Run, RunState, RunStep, StepState
from runbooks.services import run_start
from tests.incidents.builders import bring_to, make_incident
from tests.pages.asking import ask_fragment, words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

BOOK = "cross_tenant_kv_exposure"
SETTINGS = {
    "what": "Puts the workers back.",
    "if_it_fails": "They are taken out.",
    "deadline_s": 60,
}


@pytest.fixture
def incident() -> Incident:
    return bring_to(make_incident(), Status.DECLARED)


@pytest.fixture
def run(incident: Incident, responder: User) -> Run:
    return run_start(person=responder, incident=incident, book=BOOK)


def stand_at(run: Run, position: int, state: StepState) -> RunStep:
    """Let a run stand at a step: all before it are done, it is in this state."""
    run.steps.filter(position__lt=position).update(state=StepState.DONE)
    run.steps.filter(position=position).update(state=state)
    return run.steps.get(position=position)


def waiting(run: Run, **columns: object) -> RunStep:
    """Let a run of one step wait for a person."""
    run.steps.all().delete()
    step = RunStep(
        run=run,
        position=1,
        key="restore",
        title="Restore",
        settings=SETTINGS,
        state=StepState.WAITING,
    )
    for name, value in columns.items():
        setattr(step, name, value)
    step.save()
    return step


def page_of(run: Run) -> str:
    return reverse("run", args=[run.pk])


def test_only_those_with_a_role_see_runs(by_outsider: Client, run: Run) -> None:
    for address in ("/runs/", page_of(run)):
        assert by_outsider.get(address).status_code == 403, address


def test_a_declared_incident_offers_its_runbooks(by_responder: Client, incident: Incident) -> None:
    address = reverse("incident_runs", args=[incident.reference])
    offered = words_of(ask_fragment(by_responder, address, "incident_runs"))
    assert "Cross-tenant KV exposure" in offered
    assert "Start run" in offered


def test_an_incident_in_triage_offers_none(by_responder: Client) -> None:
    address = reverse("incident_runs", args=[make_incident().reference])
    assert "Start run" not in words_of(by_responder.get(address))


def test_starting_a_run_shows_its_steps(by_responder: Client, incident: Incident) -> None:
    response = by_responder.post(
        reverse("run_started", args=[incident.reference]), {"book": BOOK}, follow=True
    )
    run = Run.objects.get()
    assert response.redirect_chain == [(page_of(run), 302)]
    words = words_of(response)
    for step in run.steps.all():
        assert step.title in words


def test_a_second_run_is_refused_in_words(
    by_responder: Client, incident: Incident, run: Run
) -> None:
    response = by_responder.post(
        reverse("run_started", args=[incident.reference]), {"book": BOOK}, follow=True
    )
    assert "has an active run already" in words_of(response)
    assert Run.objects.get() == run


def test_an_unknown_runbook_is_refused_in_words(by_responder: Client, incident: Incident) -> None:
    response = by_responder.post(
        reverse("run_started", args=[incident.reference]), {"book": "none"}, follow=True
    )
    assert "no runbook is called 'none'" in words_of(response)


def test_the_page_says_what_the_step_will_do_and_what_if_it_fails(
    by_responder: Client, run: Run
) -> None:
    waiting(run, needs_start=True)
    words = words_of(by_responder.get(page_of(run)))
    assert "What this step will do Puts the workers back." in words
    assert "If it fails They are taken out." in words


def test_a_live_step_shows_progress_and_deadline_and_polls(by_responder: Client, run: Run) -> None:
    step = stand_at(run, 1, StepState.RUNNING)
    step.progress = "node 3 of 10"
    step.save()
    response = by_responder.get(page_of(run))
    words = words_of(response)
    assert "node 3 of 10" in words
    assert "deadline" in words
    assert 'hx-trigger="every 2s"' in response.content.decode()


def test_starting_a_step_makes_it_ready(by_responder: Client, run: Run) -> None:
    step = waiting(run, needs_start=True)
    assert "Start step" in words_of(by_responder.get(page_of(run)))
    by_responder.post(reverse("step_started", args=[run.pk, 1]))
    step.refresh_from_db()
    assert step.state == StepState.READY


def test_a_step_that_moved_on_is_refused_in_words(by_responder: Client, run: Run) -> None:
    waiting(run, needs_start=True, state=StepState.RUNNING)
    response = by_responder.post(reverse("step_started", args=[run.pk, 1]), follow=True)
    assert "by now: look at the run again" in words_of(response)


def test_who_started_the_run_cannot_approve(by_responder: Client, run: Run) -> None:
    step = waiting(run, needs_approval=True)
    assert "a second person is needed" in words_of(by_responder.get(page_of(run)))
    given = {"confirm": run.incident.deployment.name}
    response = by_responder.post(reverse("step_approved", args=[run.pk, 1]), given, follow=True)
    assert "needs the yes of a second person" in words_of(response)
    step.refresh_from_db()
    assert step.state == StepState.WAITING


def test_a_second_person_approves_by_typing_the_name(
    by_commander: Client, commander: User, run: Run
) -> None:
    step = waiting(run, needs_approval=True)
    address = reverse("step_approved", args=[run.pk, 1])
    refused = by_commander.post(address, {"confirm": "another"}, follow=True)
    assert "Nothing was approved" in words_of(refused)
    assert not Approval.objects.exists()
    by_commander.post(address, {"confirm": run.incident.deployment.name})
    step.refresh_from_db()
    assert step.state == StepState.READY
    assert Approval.objects.get().by == commander
    assert "approved by carl" in words_of(by_commander.get(page_of(run)))


def test_a_manual_step_is_confirmed_in_words(by_responder: Client, run: Run) -> None:
    step = waiting(run, settings={**SETTINGS, "is_manual": True})
    address = reverse("step_confirmed", args=[run.pk, 1])
    refused = by_responder.post(address, {"reason": " "}, follow=True)
    assert "say in a sentence what was done" in words_of(refused)
    by_responder.post(address, {"reason": "customers told by mail"})
    step.refresh_from_db()
    assert (step.state, step.outcome) == (StepState.DONE, "customers told by mail")


def test_a_failed_step_says_why_and_can_be_retried(by_responder: Client, run: Run) -> None:
    outcome = "decode-3 did not answer; bring it up, then retry"
    step = waiting(run, state=StepState.FAILED, outcome=outcome)
    Run.objects.filter(pk=run.pk).update(state=RunState.FAILED)
    words = words_of(by_responder.get(page_of(run)))
    assert outcome in words
    assert "Retry" in words
    by_responder.post(reverse("step_retried", args=[run.pk, 1]))
    step.refresh_from_db()
    assert step.state == StepState.READY


def test_aborting_is_a_commander_s_who_types_the_incident(
    by_commander: Client, by_responder: Client, run: Run
) -> None:
    assert "Abort: a commander only" in words_of(by_responder.get(page_of(run)))
    address = reverse("run_aborted", args=[run.pk])
    given = {"reason": "wrong incident", "confirm": run.incident.reference}
    assert by_responder.post(address, given).status_code == 403
    refused = by_commander.post(address, {**given, "confirm": "yes"}, follow=True)
    assert "Nothing was aborted" in words_of(refused)
    by_commander.post(address, given)
    run.refresh_from_db()
    assert run.state == RunState.ABORTED


def test_acts_take_a_post(by_responder: Client, run: Run) -> None:
    for name in ("step_started", "step_approved", "step_confirmed", "step_retried"):
        assert by_responder.get(reverse(name, args=[run.pk, 1])).status_code == 405, name
    assert by_responder.get(reverse("run_aborted", args=[run.pk])).status_code == 405


def test_polling_stops_when_the_run_is_over(by_responder: Client, run: Run) -> None:
    assert ask_fragment(by_responder, page_of(run), "steps").status_code == 200
    run.steps.update(state=StepState.DONE)
    Run.objects.filter(pk=run.pk).update(state=RunState.DONE)
    last = ask_fragment(by_responder, page_of(run), "steps")
    assert last.status_code == 286
    assert "hx-trigger" not in last.content.decode()
    assert "Every step is done" in words_of(last)


def test_more_runs_need_no_more_queries(
    by_responder: Client, run: Run, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(12) as few:
        by_responder.get("/runs/")
    for _ in range(4):
        Run.objects.create(
            incident=run.incident,
            book=BOOK,
            version=1,
            title="Earlier",
            state=RunState.DONE,
            started_by=run.started_by,
        )
    with django_assert_max_num_queries(len(few)):
        by_responder.get("/runs/")
