from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from common.verdicts import Verdict
from incidents.contract import Status
from incidents.models import Incident, TimelineEvent
from incidents.services import evidence_keep, note_add
from tests.incidents.builders import (
    bring_to,
    make_audit,
    make_deployment,
    make_finding,
    make_incident,
    make_proof,
    make_row,
)
from tests.pages.asking import ask_fragment, words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]


def page_of(incident: Incident) -> str:
    return reverse("incident", args=[incident.reference])


def test_only_those_with_a_role_see_incidents(by_outsider: Client) -> None:
    incident = make_incident()
    for address in ("/incidents/", page_of(incident), reverse("audit_answers", args=[1])):
        assert by_outsider.get(address).status_code == 403, address


def test_an_unknown_incident_is_not_found(by_responder: Client) -> None:
    assert by_responder.get("/incidents/INC-2026-9999/").status_code == 404
    assert by_responder.get("/incidents/nonsense/").status_code == 404


def test_a_page_shows_where_it_stands_and_its_verified_chain(by_responder: Client) -> None:
    incident = bring_to(make_incident(title="Foreign text"), Status.CONTAINED)
    response = by_responder.get(page_of(incident))
    words = words_of(response)
    assert f"{incident.reference} Foreign text" in words
    assert "▶ contained" in words
    assert f"chain of {incident.head_sequence} entries verified" in words
    assert 'data-chart="timeline-chart-figure"' in response.content.decode()
    assert response["Cache-Control"].count("no-store") == 1


def test_declaring_from_triage_by_a_commander_takes_command(
    by_commander: Client, commander: User
) -> None:
    incident = make_incident()
    assert "Declare incident" in words_of(by_commander.get(page_of(incident)))
    response = by_commander.post(
        reverse("incident_declared", args=[incident.reference]), follow=True
    )
    assert f"{incident.reference} is declared" in words_of(response)
    incident.refresh_from_db()
    assert (incident.status, incident.commander) == (Status.DECLARED, commander)


def test_a_finding_is_declared_from_the_deployment(by_responder: Client) -> None:
    finding = make_finding(make_deployment())
    response = by_responder.post(reverse("finding_declared", args=[finding.pk]))
    incident = Incident.objects.get()
    assert response["Location"] == page_of(incident)
    assert incident.status == Status.DECLARED


def test_an_entry_lands_in_the_timeline_in_utc(by_responder: Client) -> None:
    incident = make_incident()
    given = {"text": "Validation begins", "occurred_at": "2026-09-09T08:00:00"}
    by_responder.post(reverse("note_added", args=[incident.reference]), given)
    event = TimelineEvent.objects.get(text="Validation begins")
    assert event.occurred_at.isoformat() == "2026-09-09T08:00:00+00:00"
    words = words_of(by_responder.get(page_of(incident)))
    assert "2026-09-09" in words
    assert "08:00:00 person Validation begins" in words


def test_an_entry_without_words_is_asked_for_again(by_responder: Client) -> None:
    incident = make_incident()
    response = by_responder.post(reverse("note_added", args=[incident.reference]), {"text": " "})
    assert response.status_code == 200
    assert "This field is required" in words_of(response)


def test_a_correction_names_what_it_corrects(by_responder: Client, responder: User) -> None:
    incident = make_incident()
    wrong = note_add(person=responder, incident=incident, text="decode pool below context")
    given = {"text": "prefill pool below context", "supersedes": wrong.sequence}
    by_responder.post(reverse("note_added", args=[incident.reference]), given)
    words = words_of(by_responder.get(page_of(incident)))
    assert f"corrects {wrong.sequence}" in words
    assert "decode pool below context" in words


def test_an_impossible_correction_is_refused_in_words(by_responder: Client) -> None:
    incident = make_incident()
    given = {"text": "no", "supersedes": 1}
    response = by_responder.post(
        reverse("note_added", args=[incident.reference]), given, follow=True
    )
    assert "is no note" in words_of(response)


def test_evidence_opens_once_by_name_and_reason(by_responder: Client) -> None:
    incident = make_incident()
    evidence_keep(incident=incident, title="readings", document="pool 10,624", actor="run 1")
    assert "pool 10,624" not in words_of(by_responder.get(page_of(incident)))
    address = reverse("evidence_opened", args=[incident.reference, 1])
    assert by_responder.get(address).status_code == 405
    refused = by_responder.post(address, {"reason": ""}, follow=True)
    assert "say why" in words_of(refused)
    assert "pool 10,624" not in words_of(refused)
    opened = by_responder.post(address, {"reason": "to see the figures"})
    assert "pool 10,624" in words_of(opened)
    assert "no-store" in opened["Cache-Control"]
    assert TimelineEvent.objects.filter(text__contains="to see the figures").exists()


def test_an_answer_opens_on_the_record_and_stays_text(by_responder: Client) -> None:
    deployment = make_deployment()
    row = make_row(make_audit(deployment))
    row.answer = "<script>alert(1)</script>"
    row.save()
    incident = make_incident(deployment)
    address = reverse("row_opened", args=[incident.reference, row.pk])
    opened = by_responder.post(address, {"reason": "is it a tenant's text"})
    assert "&lt;script&gt;alert(1)" in opened.content.decode()
    assert TimelineEvent.objects.filter(text__contains="is it a tenant").exists()


@pytest.mark.parametrize(("form", "begins"), [("markdown", "#"), ("json", "{")])
def test_a_post_mortem_is_downloaded(by_responder: Client, form: str, begins: str) -> None:
    incident = make_incident()
    response = by_responder.get(reverse("postmortem", args=[incident.reference, form]))
    assert response.status_code == 200
    assert response["Content-Disposition"].startswith("attachment; filename=")
    assert incident.reference in response["Content-Disposition"]
    assert response.content.decode().lstrip().startswith(begins)


def test_an_unknown_form_of_export_is_refused_in_words(by_responder: Client) -> None:
    incident = make_incident()
    response = by_responder.get(
        reverse("postmortem", args=[incident.reference, "papyrus"]), follow=True
    )
    assert "papyrus" in words_of(response)


def test_closing_is_a_commander_s_and_needs_a_proof(
    by_commander: Client, by_responder: Client
) -> None:
    deployment = make_deployment()
    incident = bring_to(make_incident(deployment), Status.RESTORED)
    address = reverse("incident_closed", args=[incident.reference])
    assert by_responder.post(address, {"reason": "done"}).status_code == 403
    refused = by_commander.post(address, {"reason": "done"}, follow=True)
    assert "no standing proof" in words_of(refused)
    make_proof(deployment)
    by_commander.post(address, {"reason": "done"})
    incident.refresh_from_db()
    assert incident.status == Status.CLOSED


def test_a_move_by_hand_is_a_commander_s(by_commander: Client, by_responder: Client) -> None:
    incident = bring_to(make_incident(), Status.DECLARED)
    address = reverse("incident_moved", args=[incident.reference])
    given = {"to": "contained", "reason": "the gateway refuses the model"}
    assert by_responder.post(address, given).status_code == 403
    by_commander.post(address, given)
    incident.refresh_from_db()
    assert incident.status == Status.CONTAINED


def test_fragments_stop_when_the_incident_is_closed(by_responder: Client) -> None:
    incident = make_incident()
    for target in ("standing", "timeline"):
        assert ask_fragment(by_responder, page_of(incident), target).status_code == 200
    Incident.objects.filter(pk=incident.pk).update(status=Status.CLOSED)
    for target in ("standing", "timeline"):
        last = ask_fragment(by_responder, page_of(incident), target)
        assert last.status_code == 286
        assert "hx-trigger" not in last.content.decode()


def test_findings_show_what_was_seen(by_responder: Client) -> None:
    deployment = make_deployment()
    incident = make_incident(deployment, findings=[make_finding(deployment)])
    words = words_of(by_responder.get(page_of(incident)))
    assert "an answer held another tenant's marker" in words


def test_the_list_shows_open_and_closed(by_responder: Client) -> None:
    assert "No incident yet" in words_of(by_responder.get("/incidents/"))
    make_audit(make_deployment("other"), Verdict.PASS)
    incident = make_incident(title="Foreign text")
    assert f"{incident.reference} glm Foreign text" in words_of(by_responder.get("/incidents/"))


def test_more_entries_and_evidence_need_no_more_queries(
    by_responder: Client, responder: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    incident = make_incident()
    evidence_keep(incident=incident, title="one", document="x", actor="run 1")
    with django_assert_max_num_queries(20) as few:
        by_responder.get(page_of(incident))
    for number in range(5):
        evidence_keep(incident=incident, title=f"more {number}", document="x", actor="run 1")
        note_add(person=responder, incident=incident, text=f"note {number}")
    with django_assert_max_num_queries(len(few)):
        by_responder.get(page_of(incident))
