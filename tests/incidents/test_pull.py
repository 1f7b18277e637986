"""News of the floor below comes up by itself, each piece once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection

from common.clock import now
from common.tick import run_tick
from common.verdicts import Verdict
from incidents.contract import EventKind, Source, Status
from incidents.models import Incident, PulledAudit
from incidents.selectors import chain_verify, incident_open_of, timeline
from incidents.services import incident_close, pull_now
from probes.judgement import SECURITY_KINDS, Kind
from probes.models import AuditState, Finding
from tests.incidents.builders import (
    foreign_marker,
    make_audit,
    make_deployment,
    make_finding,
    make_incident,
    make_proof,
    make_row,
)

pytestmark = pytest.mark.django_db


def kinds_of(incident: Incident) -> list[str]:
    return [one.kind for one in timeline(incident)]


@pytest.mark.parametrize("kind", sorted(SECURITY_KINDS))
def test_a_canary_s_security_finding_opens_an_incident_by_the_tick(kind: Kind) -> None:
    finding = make_finding(make_deployment(), kind)
    assert run_tick()
    incident = Incident.objects.get()
    assert incident.kind == kind
    assert incident.status == Status.TRIAGE
    assert list(incident.findings.all()) == [finding]
    assert incident.detected_at == finding.first_seen_at


@pytest.mark.parametrize("kind", sorted(set(Kind) - SECURITY_KINDS))
def test_any_other_finding_opens_nothing(kind: Kind) -> None:
    make_finding(make_deployment(), kind)
    pull_now()
    assert not Incident.objects.exists()


def test_findings_of_one_deployment_share_an_incident_of_the_worst_kind() -> None:
    deployment = make_deployment()
    make_finding(deployment, Kind.OVER_LIMIT_SERVED, check="boundary.served")
    make_finding(deployment, Kind.LEAK)
    make_finding(make_deployment("other"))
    pull_now()
    assert Incident.objects.count() == 2
    incident = incident_open_of(deployment)
    assert incident is not None
    assert incident.kind == Kind.LEAK
    assert incident.findings.count() == 2


def test_a_later_finding_joins_the_open_incident() -> None:
    deployment = make_deployment()
    make_finding(deployment)
    pull_now()
    make_finding(deployment, Kind.CORRUPTION, check="boundary.own_nonce")
    pull_now()
    assert Incident.objects.get().findings.count() == 2


def test_pulling_again_changes_nothing() -> None:
    deployment = make_deployment()
    finding = make_finding(deployment)
    make_row(finding.first_audit, markers=[foreign_marker()])
    pull_now()
    before = kinds_of(Incident.objects.get())
    for _ in range(2):
        pull_now()
    assert kinds_of(Incident.objects.get()) == before
    assert before == [EventKind.OPENED, EventKind.AUDIT_ENDED, EventKind.MARKERS_FOUND]


@pytest.mark.django_db(transaction=True)
def test_pulls_at_once_open_one_incident_and_tell_each_audit_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment = make_deployment()
    make_finding(deployment)
    make_finding(deployment, Kind.CORRUPTION, check="boundary.own_nonce")

    def pull(_number: int) -> None:
        try:
            pull_now()
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(pull, range(12)))
    assert not caplog.records
    incident = Incident.objects.get()
    assert incident.findings.count() == 2
    assert kinds_of(incident).count(EventKind.AUDIT_ENDED) == 2
    assert PulledAudit.objects.count() == 2
    assert chain_verify(incident) is None


def test_a_leak_that_was_fixed_before_the_tick_has_still_leaked() -> None:
    finding = make_finding(make_deployment())
    Finding.objects.filter(pk=finding.pk).update(resolved_at=now())
    pull_now()
    assert Incident.objects.get().findings.get() == finding


def test_a_closed_incident_swallows_no_new_sight_of_its_finding(commander: User) -> None:
    deployment = make_deployment()
    finding = make_finding(deployment)
    pull_now()
    make_proof(deployment)
    closed = incident_close(
        person=commander, incident=Incident.objects.get(), summary="our own marker"
    )
    pull_now()
    assert Incident.objects.count() == 1
    assert closed.closed_at is not None
    seen_at = closed.closed_at + timedelta(microseconds=1)
    Finding.objects.filter(pk=finding.pk).update(last_seen_at=seen_at)
    pull_now()
    later = incident_open_of(deployment)
    assert later is not None
    assert later != closed
    assert later.detected_at == seen_at


def test_an_audit_is_told_with_verdict_cost_and_who_asked() -> None:
    incident = make_incident()
    audit = make_audit(
        incident.deployment, Verdict.NOT_EXERCISED, cost_tokens=12_345, headline="no grant."
    )
    pull_now()
    told = timeline(incident)[-1]
    assert (told.source, told.occurred_at) == (Source.AUDIT, audit.ended_at)
    assert f"Audit {audit.pk}" in told.text
    for words in ("not exercised", "no grant", "12,345 tokens", "asked by rita"):
        assert words in told.text


def test_a_stopped_audit_is_told_as_proving_nothing() -> None:
    incident = make_incident()
    make_audit(incident.deployment, state=AuditState.STOPPED, problem="the worker died")
    pull_now()
    assert "stopped and proves nothing: the worker died" in timeline(incident)[-1].text


def test_a_marker_is_told_with_tenant_request_and_page_and_without_the_answer() -> None:
    incident = make_incident()
    audit = make_audit(incident.deployment)
    make_row(audit, position=1, markers=[foreign_marker(is_own=True)])
    make_row(audit, position=2, markers=[foreign_marker(), foreign_marker(page=18)])
    pull_now()
    told = timeline(incident)[-1]
    assert told.source == Source.CANARY
    assert "Row 2 of round 1" in told.text
    assert "Row 1 of" not in told.text
    for words in ("tenant-a", "00cafe", "page 17", "10,618 tokens", "1 more"):
        assert words in told.text
    assert "text of another tenant" not in told.text


def test_many_rows_are_counted_where_they_are_not_named() -> None:
    incident = make_incident()
    audit = make_audit(incident.deployment)
    for position in range(8):
        make_row(audit, position=position, markers=[foreign_marker()])
    pull_now()
    assert "3 more rows of the audit held foreign markers" in timeline(incident)[-1].text


def test_audits_of_before_and_of_others_are_not_told() -> None:
    incident = make_incident()
    make_audit(incident.deployment, ended_at=incident.opened_at - timedelta(hours=1))
    make_audit(make_deployment("other"))
    make_audit(incident.deployment, state=AuditState.RUNNING)
    pull_now()
    assert kinds_of(incident) == [EventKind.OPENED]


def test_one_deployment_that_fails_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_finding(make_deployment("broken"))
    make_finding(make_deployment("whole"))

    def title(finding: Finding) -> str:
        if finding.deployment.name == "broken":
            raise RuntimeError("made up")
        return "A leak"

    monkeypatch.setattr("incidents.services.pull.finding_title", title)
    pull_now()
    assert Incident.objects.get().deployment.name == "whole"
    assert "made up" in caplog.text
