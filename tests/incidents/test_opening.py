"""What opens an incident, who declares it, and from when requests may have been hit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User

from common.clock import now
from common.roles import NotAllowed
from common.verdicts import Verdict
from incidents.contract import IncidentError, Source, Status
from incidents.models import Incident
from incidents.selectors import incident_open_of, timeline
from incidents.selectors.impact import impact_estimate
from incidents.services import (
    command_take,
    finding_declare,
    incident_declare,
    incident_join,
    incident_open,
)
from probes.judgement import Kind
from tests.incidents.builders import (
    make_audit,
    make_check,
    make_deployment,
    make_finding,
    make_incident,
    make_node,
    make_proof,
    make_reading,
)

pytestmark = pytest.mark.django_db
DAY = datetime(2026, 9, 9, tzinfo=UTC)


def test_an_incident_opens_in_triage_and_restricted() -> None:
    incident = make_incident()
    assert incident.status == Status.TRIAGE
    assert incident.is_restricted
    assert incident.declared_at is None
    assert incident.reference == f"INC-{now().year}-0001"


def test_numbers_follow_each_other_within_a_year() -> None:
    numbers = [make_incident(make_deployment(f"glm-{one}")).number for one in range(3)]
    assert numbers == [1, 2, 3]


def test_a_deployment_has_one_open_incident() -> None:
    incident = make_incident()
    with pytest.raises(IncidentError, match=incident.reference):
        make_incident(incident.deployment)


def test_what_was_detected_is_the_first_sight_of_the_findings() -> None:
    deployment = make_deployment()
    seen_at = now() - timedelta(hours=5)
    findings = [
        make_finding(deployment),
        make_finding(deployment, check="boundary.served", seen_at=seen_at),
    ]
    assert make_incident(deployment, findings=findings).detected_at == seen_at


def test_findings_of_another_deployment_are_refused() -> None:
    stranger = make_finding(make_deployment("other"))
    with pytest.raises(IncidentError, match="other"):
        make_incident(findings=[stranger])


def test_a_finding_joins_once() -> None:
    incident = make_incident()
    finding = make_finding(incident.deployment)
    for _ in range(2):
        incident_join(incident=incident, findings=[finding], source=Source.CANARY, actor="audit 1")
    joined = [one for one in timeline(incident) if one.kind == "finding_joined"]
    assert len(joined) == 1


def test_a_leak_is_not_hidden_behind_a_smaller_fault() -> None:
    deployment = make_deployment()
    incident = incident_open(
        deployment=deployment,
        kind=Kind.CONFIG,
        title="Pool too small",
        source=Source.PERSON,
        actor="rita",
    )
    leak, served = (
        make_finding(deployment),
        make_finding(deployment, Kind.OVER_LIMIT_SERVED, check="boundary.served"),
    )
    for finding, kind in ((leak, Kind.LEAK), (served, Kind.LEAK)):
        incident = incident_join(
            incident=incident, findings=[finding], source=Source.CANARY, actor="audit 1"
        )
        assert incident.kind == kind


def test_a_commander_who_declares_commands(commander: User) -> None:
    incident = incident_declare(person=commander, incident=make_incident())
    assert incident.status == Status.DECLARED
    assert incident.commander == commander
    assert incident.declared_at is not None


def test_a_responder_declares_and_leaves_the_command_open(responder: User, commander: User) -> None:
    incident = incident_declare(person=responder, incident=make_incident())
    assert incident.commander is None
    with pytest.raises(NotAllowed, match="commander"):
        command_take(person=responder, incident=incident)
    assert command_take(person=commander, incident=incident).commander == commander


def test_nobody_without_a_role_declares(outsider: User) -> None:
    incident = make_incident()
    finding = make_finding(incident.deployment, Kind.CONFIG, check="pool_covers_context")
    with pytest.raises(NotAllowed):
        incident_declare(person=outsider, incident=incident)
    with pytest.raises(NotAllowed):
        finding_declare(person=outsider, finding=finding)
    assert Incident.objects.get().status == Status.TRIAGE


def test_an_incident_is_declared_once(responder: User) -> None:
    incident = incident_declare(person=responder, incident=make_incident())
    with pytest.raises(IncidentError, match="declared already"):
        incident_declare(person=responder, incident=incident)


def test_a_person_declares_from_any_finding(responder: User) -> None:
    finding = make_finding(make_deployment(), Kind.CONFIG, check="pool_covers_context")
    incident = finding_declare(person=responder, finding=finding)
    assert incident.status == Status.DECLARED
    assert incident.kind == Kind.CONFIG
    assert list(incident.findings.all()) == [finding]
    assert finding_declare(person=responder, finding=finding) == incident


def test_a_finding_declared_beside_a_triage_incident_declares_that(responder: User) -> None:
    incident = make_incident()
    finding = make_finding(incident.deployment, Kind.CONFIG, check="pool_covers_context")
    assert finding_declare(person=responder, finding=finding) == incident
    assert incident_open_of(incident.deployment) == Incident.objects.get(
        status=Status.DECLARED, findings=finding
    )


def test_without_a_proof_the_start_bounds_nothing_and_says_so() -> None:
    deployment = make_deployment()
    estimate = impact_estimate(deployment, detected_at=now())
    assert estimate.at == deployment.added_at
    assert "may be older" in estimate.basis


def test_a_proof_bounds_the_start_from_below() -> None:
    deployment = make_deployment()
    make_proof(deployment, granted_at=DAY - timedelta(days=3))
    proof = make_proof(deployment, granted_at=DAY - timedelta(days=2))
    make_proof(deployment, granted_at=DAY + timedelta(hours=1))
    estimate = impact_estimate(deployment, detected_at=DAY)
    assert estimate.at == proof.granted_at
    assert f"audit {proof.audit_id} proved" in estimate.basis


def test_the_last_reading_before_a_change_narrows_the_start() -> None:
    deployment = make_deployment()
    prefill, decode = make_node(deployment, "prefill-1"), make_node(deployment, "decode-1")
    make_proof(
        deployment,
        granted_at=DAY,
        fingerprints={"prefill-1": "a" * 64, "decode-1": "b" * 64},
    )
    hours = [DAY + timedelta(hours=count) for count in range(6)]
    make_reading(prefill, "a" * 64, hours[2])
    make_reading(decode, "b" * 64, hours[1])
    make_reading(prefill, "c" * 64, hours[3])
    make_reading(decode, "b" * 64, hours[4])
    estimate = impact_estimate(deployment, detected_at=hours[5])
    assert estimate.at == hours[1]
    assert "last read unchanged" in estimate.basis


def test_a_leak_from_nodes_as_they_were_proved_puts_the_proof_itself_in_doubt() -> None:
    deployment = make_deployment()
    node = make_node(deployment, "prefill-1")
    make_proof(deployment, granted_at=DAY, fingerprints={"prefill-1": "a" * 64})
    make_reading(node, "a" * 64, DAY + timedelta(hours=1))
    assert impact_estimate(deployment, detected_at=DAY + timedelta(hours=2)).at == DAY


def test_the_first_sight_of_an_open_band_bounds_the_start_from_above() -> None:
    deployment = make_deployment()
    make_proof(deployment, granted_at=DAY)
    seen = []
    for hours in (1, 2):
        audit = make_audit(deployment, Verdict.FAIL, ended_at=DAY + timedelta(hours=hours))
        make_check(audit, check="pair_exposure")
        seen.append(audit)
    basis = impact_estimate(deployment, detected_at=DAY + timedelta(hours=3)).basis
    assert f"audit {seen[0].pk} saw the band open at 2026-09-09 01:00:00 UTC" in basis
