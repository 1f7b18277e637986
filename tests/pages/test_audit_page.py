from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from common.verdicts import Verdict
from probes.models import Audit, AuditState
from tests.incidents.builders import (
    foreign_marker,
    make_audit,
    make_check,
    make_deployment,
    make_incident,
    make_row,
)
from tests.pages.asking import ask_fragment, words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]


def page_of(audit: Audit) -> str:
    return reverse("audit", args=[audit.pk])


def running() -> Audit:
    return Audit.objects.create(
        deployment=make_deployment(),
        state=AuditState.RUNNING,
        requested_by="rita",
        progress={"done": 3, "total": 9, "label": "asking 10,618 tokens"},
    )


def test_a_running_audit_shows_progress_and_polls(by_responder: Client) -> None:
    audit = running()
    response = by_responder.get(page_of(audit))
    assert "asking 10,618 tokens" in words_of(response)
    assert 'value="3" max="9"' in " ".join(response.content.decode().split())
    assert 'hx-trigger="every 2s"' in response.content.decode()


def test_polling_stops_when_the_audit_is_over(by_responder: Client) -> None:
    audit = running()
    assert ask_fragment(by_responder, page_of(audit), "findings").status_code == 200
    audit.state, audit.verdict, audit.headline = AuditState.DONE, Verdict.FAIL, "it leaks"
    audit.save()
    last = ask_fragment(by_responder, page_of(audit), "findings")
    assert last.status_code == 286
    assert "every 2s" not in last.content.decode()
    assert "fail it leaks" in words_of(last)


def test_checks_show_the_required_and_worst_first_with_figures(by_responder: Client) -> None:
    audit = make_audit(make_deployment())
    make_check(audit, Verdict.FAIL, check="pair_layout", required=False)
    make_check(audit, Verdict.PASS, check="pair_match")
    make_check(audit, Verdict.FAIL, check="pair_exposure", figures={"band": [10_618, 16_377]})
    words = words_of(by_responder.get(page_of(audit)))
    order = [words.index(name) for name in ("pair_ exposure", "pair_ match", "pair_ layout")]
    assert order == sorted(order)
    assert "band 10,618 to 16,377" in words
    assert "pair_ layout advisory" in words


def test_a_skip_shows_its_reason(by_responder: Client) -> None:
    skipped = [{"check": "pair_match", "reason": "there is no pair"}]
    audit = make_audit(make_deployment(), skipped=skipped)
    assert "pair_match there is no pair" in words_of(by_responder.get(page_of(audit)))


def test_a_foreign_marker_names_tenant_request_and_page(by_responder: Client) -> None:
    audit = make_audit(make_deployment())
    make_row(audit, markers=[foreign_marker()])
    words = words_of(by_responder.get(page_of(audit)))
    assert "marker of tenant tenant-a , request 00cafe , page 17" in words


def test_many_markers_of_one_request_are_one_line(by_responder: Client) -> None:
    audit = make_audit(make_deployment())
    make_row(audit, markers=[foreign_marker(page=page) for page in (165, 1, 0, 1)])
    words = words_of(by_responder.get(page_of(audit)))
    assert words.count("marker of tenant") == 1
    assert "pages 0, 1, 165" in words


def test_the_request_s_own_marker_is_no_finding(by_responder: Client) -> None:
    audit = make_audit(make_deployment())
    make_row(audit, markers=[foreign_marker(is_own=True)])
    assert "marker of tenant" not in words_of(by_responder.get(page_of(audit)))


def test_a_marker_whose_owner_is_unsaid_counts(by_responder: Client) -> None:
    audit = make_audit(make_deployment())
    marker = foreign_marker()
    del marker["is_own"]
    make_row(audit, markers=[marker])
    assert "marker of tenant" in words_of(by_responder.get(page_of(audit)))


def test_fillers_are_counted_unless_one_shows_a_marker(by_responder: Client) -> None:
    audit = make_audit(make_deployment())
    make_row(audit, position=1, part="fill", purpose="fills-quietly", length=4_000)
    make_row(audit, position=2, part="fill", purpose="fills-leaking", markers=[foreign_marker()])
    words = words_of(by_responder.get(page_of(audit)))
    assert "1 filler, 4,000 tokens, nothing strange" in words
    assert "fills-quietly" not in words
    assert "fills-leaking" in words


def test_an_answer_never_stands_on_the_page(by_responder: Client) -> None:
    audit = make_audit(make_deployment())
    make_row(audit)
    assert "text of another tenant" not in words_of(by_responder.get(page_of(audit)))


def test_answers_open_only_for_an_incident(by_responder: Client) -> None:
    deployment = make_deployment()
    audit = make_audit(deployment)
    row = make_row(audit)
    answers = reverse("audit_answers", args=[audit.pk])
    assert "there is none" in words_of(by_responder.get(answers))
    incident = make_incident(deployment)
    shown = by_responder.get(answers).content.decode()
    assert reverse("row_opened", args=[incident.reference, row.pk]) in shown


def test_the_list_can_be_narrowed_to_a_deployment(by_responder: Client) -> None:
    make_audit(make_deployment("one"), headline="about one")
    make_audit(make_deployment("two"), headline="about two")
    words = words_of(by_responder.get("/audits/", {"deployment": "two"}))
    assert "about two" in words
    assert "about one" not in words


def test_more_rows_and_checks_need_no_more_queries(
    by_responder: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    audit = make_audit(make_deployment())
    make_row(audit)
    with django_assert_max_num_queries(12) as few:
        by_responder.get(page_of(audit))
    for position in range(2, 8):
        make_row(audit, position=position)
        make_check(audit, check=f"check-{position}")
    with django_assert_max_num_queries(len(few)):
        by_responder.get(page_of(audit))
