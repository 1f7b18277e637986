from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from common.health import Part
from common.verdicts import Verdict
from incidents.contract import Status
from runbooks.models import Run, RunStep, StepState
from tests.incidents.builders import (
    bring_to,
    make_audit,
    make_check,
    make_deployment,
    make_finding,
    make_incident,
    make_node,
    make_proof,
)
from tests.pages.asking import ask_fragment, words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

#: Figures of the drill's September: usable pool, context, context times 1.25.
POOL_FIGURES = {"pool": 10_624, "context": 16_384, "required": 20_480}


def fill(name: str) -> None:
    deployment = make_deployment(name)
    make_node(deployment, "prefill-1")
    audit = make_audit(deployment)
    make_check(audit, check="pool_covers_context", figures=POOL_FIGURES)
    make_incident(deployment, findings=[make_finding(deployment, audit=audit)])


def test_without_deployments_the_page_says_what_to_do(by_responder: Client) -> None:
    words = words_of(by_responder.get("/"))
    assert "No deployments yet" in words
    assert "./pagewarden up" in words
    assert "Nothing waits for anybody" in words


def test_a_deployment_shows_verdict_why_and_figures(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    audit = make_audit(deployment, headline="prefill-1 refuses from 10,618")
    make_check(audit, check="pool_covers_context", figures=POOL_FIGURES)
    response = by_responder.get("/")
    words = words_of(response)
    assert "fail prefill-1 refuses from 10,618" in words
    assert "10,624" in words
    assert "16,384" in words
    assert 'data-chart="pools-' in response.content.decode()


def test_a_proof_shows_its_age_and_what_is_left(by_responder: Client) -> None:
    make_proof(make_deployment("glm"))
    words = words_of(by_responder.get("/"))
    assert "pass" in words
    assert "23 h 59 min left" in words


def test_the_worst_stands_first(by_responder: Client) -> None:
    make_proof(make_deployment("a-proved"))
    make_deployment("b-unknown")
    make_audit(make_deployment("c-failing"), Verdict.FAIL)
    words = words_of(by_responder.get("/"))
    assert words.index("c-failing") < words.index("b-unknown") < words.index("a-proved")


def test_an_open_incident_leads_the_page(by_responder: Client) -> None:
    incident = make_incident(title="Foreign text in answers")
    words = words_of(by_responder.get("/"))
    assert f"{incident.reference} Foreign text in answers" in words
    assert f"{incident.reference} is in triage" in words
    assert "Open incident" in words


def test_a_restricted_incident_is_not_shown_to_others(by_outsider: Client) -> None:
    incident = make_incident(title="Foreign text in answers")
    words = words_of(by_outsider.get("/"))
    assert incident.reference not in words
    assert "Foreign text" not in words


def test_a_step_that_waits_names_who_may_approve(responder: User, by_responder: Client) -> None:
    incident = bring_to(make_incident(), Status.MITIGATED)
    run = Run.objects.create(
        incident=incident, book="made_up", version=1, title="Made up", started_by=responder
    )
    RunStep.objects.create(
        run=run,
        position=1,
        key="restore",
        title="Restore",
        needs_approval=True,
        state=StepState.WAITING,
    )
    words = words_of(by_responder.get("/"))
    assert "Restore, glm: needs a second person" in words
    assert "it cannot be you" in words
    assert reverse("run", args=[run.pk]) in by_responder.get("/").content.decode()


def test_a_part_that_is_down_says_why(
    by_responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = (Part(name="worker", why="no worker has beaten for 20 s"),)
    monkeypatch.setattr("runbooks.views.parts", lambda: down)
    assert "no worker has beaten for 20 s" in words_of(by_responder.get("/"))
    assert "part down" in words_of(by_responder.get(reverse("sidebar")))


def test_the_sidebar_hides_counts_of_what_one_may_not_see(
    by_responder: Client, by_outsider: Client
) -> None:
    make_incident()
    shown = '<span id="count-incidents" class="nav-count" hx-swap-oob="true">1</span>'
    assert shown in by_responder.get(reverse("sidebar")).content.decode()
    assert shown not in by_outsider.get(reverse("sidebar")).content.decode()


def test_the_refreshed_part_is_the_fragment_alone(by_responder: Client) -> None:
    response = ask_fragment(by_responder, "/", "now")
    assert response.status_code == 200
    assert response.content.decode().strip().startswith('<div id="now"')


def test_an_unknown_target_gets_the_whole_page(by_responder: Client) -> None:
    assert b"</html>" in ask_fragment(by_responder, "/", "nothing").content


def test_more_deployments_and_incidents_need_no_more_queries(
    by_responder: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    fill("first")
    with django_assert_max_num_queries(20) as few:
        by_responder.get("/")
    for number in range(4):
        fill(f"more-{number}")
    with django_assert_max_num_queries(len(few)):
        by_responder.get("/")
