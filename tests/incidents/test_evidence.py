"""Evidence and answers stay sealed, and open only for a named person with a reason."""

from __future__ import annotations

import hashlib

import pytest
from django.contrib.auth.models import User

from common.models import AuditTrail
from common.roles import NotAllowed
from incidents.contract import IncidentError
from incidents.models import Evidence, Incident
from incidents.selectors import timeline
from incidents.services import evidence_keep, evidence_unseal, row_unseal
from probes.models import CanaryRow
from tests.incidents.builders import make_audit, make_deployment, make_incident, make_row

pytestmark = pytest.mark.django_db
DOCUMENT = "what the engines said: tokens of others"


@pytest.fixture
def incident() -> Incident:
    return make_incident()


@pytest.fixture
def evidence(incident: Incident) -> Evidence:
    return evidence_keep(incident=incident, title="Readings", document=DOCUMENT, actor="run 1")


def test_a_document_is_kept_sealed_with_its_hash_in_the_open(
    incident: Incident, evidence: Evidence
) -> None:
    stored = Evidence.objects.get()
    assert DOCUMENT.encode() not in bytes(stored.sealed_document)
    assert stored.sha256 == hashlib.sha256(DOCUMENT.encode()).hexdigest()
    assert stored.size_bytes == len(DOCUMENT)
    told = timeline(incident)[-1]
    assert stored.sha256 in told.text
    assert DOCUMENT not in told.text
    second = evidence_keep(incident=incident, title="Logs", document="x", actor="run 1")
    assert (evidence.number, second.number) == (1, 2)


def test_unsealing_is_recorded_with_who_and_why(
    incident: Incident, evidence: Evidence, responder: User
) -> None:
    assert evidence_unseal(person=responder, evidence=evidence, reason="to compare") == DOCUMENT
    told = timeline(incident)[-1]
    assert (told.kind, told.actor) == ("unsealed", "rita")
    assert "E-0001: to compare" in told.text
    assert AuditTrail.objects.get().details == {"reason": "to compare"}


def test_unsealing_needs_a_role_and_a_reason(
    incident: Incident, evidence: Evidence, responder: User, outsider: User
) -> None:
    with pytest.raises(NotAllowed):
        evidence_unseal(person=outsider, evidence=evidence, reason="curious")
    with pytest.raises(IncidentError, match="say why"):
        evidence_unseal(person=responder, evidence=evidence, reason="  ")
    assert timeline(incident)[-1].kind == "evidence_kept"


def test_a_document_that_was_exchanged_does_not_open(
    incident: Incident, evidence: Evidence, responder: User
) -> None:
    other = evidence_keep(incident=incident, title="Logs", document="x", actor="run 1")
    Evidence.objects.filter(pk=evidence.pk).update(sealed_document=other.sealed_document)
    with pytest.raises(IncidentError, match="does not open"):
        evidence_unseal(person=responder, evidence=Evidence.objects.get(number=1), reason="why")


def test_a_document_that_differs_from_its_hash_is_not_shown(
    evidence: Evidence, responder: User
) -> None:
    evidence.document = "something else"
    evidence.save(update_fields=["sealed_document"])
    with pytest.raises(IncidentError, match="differs from its recorded hash"):
        evidence_unseal(person=responder, evidence=evidence, reason="why")


@pytest.mark.parametrize(("title", "document"), [("", "x"), ("x", "")])
def test_nothing_is_no_evidence(incident: Incident, title: str, document: str) -> None:
    with pytest.raises(IncidentError, match="title and a document"):
        evidence_keep(incident=incident, title=title, document=document, actor="run 1")


def test_an_answer_opens_on_the_record_without_being_in_it(
    incident: Incident, responder: User
) -> None:
    made = make_row(make_audit(incident.deployment), position=3)
    row = CanaryRow.objects.get(pk=made.pk)
    answer = row_unseal(person=responder, row=row, incident=incident, reason="whose text is it")
    assert answer == "text of another tenant"
    told = timeline(incident)[-1].text
    assert "row 3 of round 1" in told
    assert "whose text is it" in told
    assert answer not in told


def test_an_answer_of_another_deployment_stays_sealed(
    incident: Incident, responder: User, outsider: User
) -> None:
    row = make_row(make_audit(make_deployment("other")))
    with pytest.raises(IncidentError, match="not about the deployment"):
        row_unseal(person=responder, row=row, incident=incident, reason="why")
    own = make_row(make_audit(incident.deployment))
    with pytest.raises(NotAllowed):
        row_unseal(person=outsider, row=own, incident=incident, reason="why")
