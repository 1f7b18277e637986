"""Rounds on the audit page: under their plans, with what a pass excludes, each marker's origin."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from common.verdicts import Verdict
from probes.models import Audit, CanaryRow
from tests.incidents.builders import (
    foreign_marker,
    make_audit,
    make_check,
    make_deployment,
    make_incident,
    make_row,
)
from tests.pages.asking import words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]


def head(number: int = 1, plan: str = "boundary", **over: object) -> dict[str, object]:
    cost = {
        "estimated_tokens": 9_000,
        "estimated_seconds": 30.0,
        "spent_tokens": 8_500,
        "requests": 7,
        "seconds": 2.5,
    }
    known = {"number": number, "plan": plan, "target": "router", "verdict": "pass", "cost": cost}
    return {**known, "unsent": [], "departures": [], **over}


def audit_with(*heads: dict[str, object]) -> Audit:
    return make_audit(make_deployment(), rounds=[*heads])


def words_on(client: Client, audit: Audit) -> str:
    return words_of(client.get(reverse("audit", args=[audit.pk])))


def html_on(client: Client, audit: Audit) -> str:
    return " ".join(client.get(reverse("audit", args=[audit.pk])).content.decode().split())


def suspect(**over: object) -> dict[str, object]:
    return foreign_marker(is_suspect=True, net_bits=48.5, view="reversed", **over)


def test_a_plan_is_named_with_what_it_cost_before_and_after(by_responder: Client) -> None:
    words = words_on(by_responder, audit_with(head(1), head(2)))
    assert "At the limits, nobody reads another tenant's pages" in words
    assert "cost 17,000 tokens, 5.0 s 18,000 told before" in words
    assert words.count("Canary round") == 2


def test_a_pass_says_the_rates_that_it_excludes(by_responder: Client) -> None:
    audit = audit_with(head())
    for check in ("boundary.foreign_marker", "boundary.refusal"):
        make_check(audit, Verdict.PASS, check=check, figures={"rounds": 10})
    # 3 / 10 at 95 %, 6.9 / 10 at 99.9 %.
    words = words_on(by_responder, audit)
    assert "10 clean rounds exclude" in words
    assert "above 0.3 at 95 %, above 0.69 at 99.9 %" in words


def test_one_round_excludes_nothing_yet(by_responder: Client) -> None:
    audit = audit_with(head())
    make_check(audit, Verdict.PASS, check="boundary.foreign_marker", figures={"rounds": 1})
    assert "1 clean round, which cannot exclude any rate at 95 % yet" in words_on(
        by_responder, audit
    )


def test_no_rate_is_claimed_beside_a_check_that_did_not_pass(by_responder: Client) -> None:
    audit = audit_with(head())
    make_check(audit, Verdict.PASS, check="boundary.foreign_marker", figures={"rounds": 10})
    make_check(audit, Verdict.INCONCLUSIVE, check="boundary.refusal", figures={"rounds": 10})
    assert "clean round" not in words_on(by_responder, audit)


def test_a_suspect_is_told_apart_from_a_certain_marker(by_responder: Client) -> None:
    audit = audit_with(head())
    make_row(audit, markers=[suspect(page=3), suspect(page=4), foreign_marker(request="00d0d0")])
    words = words_on(by_responder, audit)
    assert (
        "perhaps 2 pieces like a marker of tenant tenant-a , request 00cafe , pages 3, 4" in words
    )
    assert "48.5 bits beyond chance, seen reversed" in words
    assert words.count("marker of tenant tenant-a , request 00d0d0") == 1
    # The certain one comes first.
    assert words.index("00d0d0") < words.index("00cafe")


def test_a_suspect_alone_does_not_make_an_answer_wrong(by_responder: Client) -> None:
    audit = audit_with(head())
    make_row(audit, markers=[suspect()])
    assert "verdict-fail" not in html_on(by_responder, audit).split('id="row-')[1]


def test_a_marker_leads_to_the_row_that_planted_it(by_responder: Client) -> None:
    audit = audit_with(head())
    origin = make_row(audit, position=1, part="fill", tenant="tenant-a", request="00cafe")
    make_row(audit, position=2, markers=[foreign_marker()])
    html = html_on(by_responder, audit)
    assert f'href="{reverse("audit", args=[audit.pk])}#row-{origin.pk}"' in html
    assert f'id="row-{origin.pk}"' in html


def test_a_marker_of_an_earlier_audit_leads_there(by_responder: Client) -> None:
    deployment = make_deployment()
    earlier = make_audit(deployment)
    origin = make_row(earlier, tenant="tenant-a", request="00cafe")
    audit = make_audit(deployment)
    make_row(audit, markers=[foreign_marker()])
    place = f"{reverse('audit', args=[earlier.pk])}#row-{origin.pk}"
    assert place in html_on(by_responder, audit)


def test_another_tenant_s_row_of_that_name_is_no_origin(by_responder: Client) -> None:
    audit = audit_with(head())
    make_row(audit, position=1, tenant="tenant-b", request="00cafe")
    make_row(audit, position=2, markers=[foreign_marker()])
    html = html_on(by_responder, audit)
    assert "#row-" not in html
    assert f'href="{reverse("marker_trace")}">trace the text' in html


def test_the_evidence_page_leads_to_row_and_origin(by_responder: Client) -> None:
    audit = audit_with(head())
    origin = make_row(audit, position=1, part="fill", tenant="tenant-a", request="00cafe")
    hit = make_row(audit, position=2, markers=[foreign_marker()])
    make_incident(audit.deployment)
    html = by_responder.get(reverse("audit_answers", args=[audit.pk])).content.decode()
    for row in (origin, hit):
        assert f"{reverse('audit', args=[audit.pk])}#row-{row.pk}" in html


def test_a_long_round_folds_all_but_what_is_strange(by_responder: Client) -> None:
    audit = audit_with(head())
    for position in range(1, 21):
        make_row(audit, position=position, purpose=f"plain-{position}")
    make_row(audit, position=21, purpose="strange-one", outcome="failed", status=500)
    html = html_on(by_responder, audit)
    shown, folded = html.split('<details class="more" id="folded-1">')
    assert "20 requests in which nothing was strange" in folded
    assert "strange-one" in shown
    assert "plain-1" not in shown


def test_waves_routes_and_scripts_are_readable(by_responder: Client) -> None:
    audit = audit_with(head(plan="concurrency"))
    sent = {"api": "chat", "streamed": True, "script": "shared-0", "worker": "p1/d1"}
    for position in (1, 2):
        make_row(audit, position=position, wave=3, first_token_s=0.25, cached_tokens=64, **sent)
    words = words_on(by_responder, audit)
    assert "Wave 3: 2 requests" in words
    assert words.count("chat, streamed, script shared-0") == 2
    assert "10,618, 64" in words
    assert "p1/ d1" in words
    assert "0.250, " in words


def test_what_was_not_sent_stands_with_its_reason(by_responder: Client) -> None:
    unsent = [{"reason": "only out of rotation", "count": 8}]
    audit = audit_with(head(plan="concurrency", unsent=unsent))
    words = words_on(by_responder, audit)
    assert "8 not sent: only out of rotation" in words
    assert "Nothing was sent; the checks of this plan say why." in words


def test_a_round_that_only_began_waits_for_its_answer(by_responder: Client) -> None:
    audit = audit_with({"number": 1, "plan": "salt", "target": "router"})
    assert "No answer yet." in words_on(by_responder, audit)


def test_departures_are_shown_by_role(by_responder: Client) -> None:
    left = {
        "stay": "leaves",
        "target": "router",
        "length": 4_096,
        "is_answered": False,
        "seconds": 0.5,
        "looked_s": 12.0,
        "ends": {"prefill": {"aborted": 1, "finished": 0}, "decode": {"aborted": None}},
        "held": {"prefill": 0, "decode": 2},
    }
    words = words_on(by_responder, audit_with(head(plan="proxy_aborts", departures=[left])))
    assert "Counters of the engines around 1 request" in words
    assert "prefill: 0 finished, 1 aborted" in words
    assert "decode: unknown finished, unknown aborted" in words
    assert "decode: 2" in words


def test_salt_is_drawn_by_arm_with_its_medians(by_responder: Client) -> None:
    audit = audit_with(head(plan="salt"))
    times = {"tenant-a": 0.4, "tenant-b": 0.3}
    for number in range(3):
        for at, (tenant, first_token_s) in enumerate(times.items()):
            make_row(
                audit,
                position=2 * number + at,
                script=f"prompt {number}",
                salt=f"salt of {tenant}",
                tenant=tenant,
                first_token_s=first_token_s,
                duty="answer",
            )
    html = html_on(by_responder, audit)
    assert 'data-chart="drawing-1-figure"' in html
    words = words_on(by_responder, audit)
    assert "salted, new median 0.400 s of 3" in words
    assert "salted, another's median 0.300 s of 3" in words


def test_the_share_of_right_answers_is_drawn_by_thirds(by_responder: Client) -> None:
    audit = audit_with(head(plan="churn"))
    for position in range(9):
        make_row(
            audit, position=position, duty="answer", echo="whole" if position < 6 else "missing"
        )
    words = words_on(by_responder, audit)
    assert "first third 3 of 3 right" in words
    assert "last third 0 of 3 right" in words


def test_a_round_of_an_earlier_release_still_shows(by_responder: Client) -> None:
    audit = make_audit(make_deployment())
    make_row(audit, purpose="from before")
    assert audit.rounds == []
    assert "from before" in words_on(by_responder, audit)


def test_many_origins_need_no_more_queries(
    by_responder: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    audit = audit_with(head())
    for position in range(1, 9):
        marker = foreign_marker(request=f"{position:06x}")
        make_row(audit, position=position, request=f"f0000{position}", markers=[marker])
    assert CanaryRow.objects.count() == 8
    # The session, the person, the sidebar's parts; audit, checks, rows, origins.
    with django_assert_max_num_queries(12):
        by_responder.get(reverse("audit", args=[audit.pk]))


def test_the_plans_stand_at_the_top_with_their_verdicts(by_responder: Client) -> None:
    audit = audit_with(head(1), head(2, plan="proxy_aborts"))
    make_check(audit, Verdict.PASS, check="boundary.refusal", figures={"rounds": 1})
    make_check(audit, Verdict.NOT_EXERCISED, check="proxy_aborts")
    html = html_on(by_responder, audit)
    top, _ = html.split('aria-labelledby="checks-title"')
    assert 'href="#plan-boundary"' in top
    assert "verdict-pass" in top.split('href="#plan-boundary"')[1].split("</li>")[0]
    assert "verdict-not_exercised" in top.split('href="#plan-proxy_aborts"')[1].split("</li>")[0]
