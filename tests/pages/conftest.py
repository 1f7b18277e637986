"""Browsers of the three people, and parts that answer without a broker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from common.clock import now
from common.health import Part
from fleet.models import NodeReading
from incidents.contract import Status
from incidents.services import evidence_keep
from probes.models import Audit, AuditState
from probes.tokens import token_add
from runbooks.services import run_start
from tests.incidents.builders import (
    bring_to,
    foreign_marker,
    make_audit,
    make_check,
    make_deployment,
    make_finding,
    make_incident,
    make_node,
    make_row,
)
from tests.pages.browsing import complaints, open_page

__all__ = ["complaints", "open_page"]


@pytest.fixture
def _parts_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every part answer, so that a test of a page asks no broker."""
    up = (Part(name="database"), Part(name="broker"), Part(name="worker"))
    monkeypatch.setattr("runbooks.views.parts", lambda: up)


def browser_of(person: User) -> Client:
    """Answer a browser in which a person is signed in."""
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def by_responder(responder: User) -> Client:
    return browser_of(responder)


@pytest.fixture
def by_commander(commander: User) -> Client:
    return browser_of(commander)


@pytest.fixture
def by_outsider(outsider: User) -> Client:
    return browser_of(outsider)


@pytest.fixture
def addresses(responder: User) -> list[str]:
    """Fill every page with something to show, and answer where the pages are."""
    deployment = make_deployment("glm")
    node = make_node(deployment, "prefill-1")
    NodeReading.objects.create(node=node, taken_at=now(), fingerprint="f" * 64, document={})
    audit = make_audit(deployment)
    make_check(audit, check="pool_covers_context", figures={"pool": 1, "context": 2, "required": 3})
    make_check(audit, check="pair_exposure", figures={"band": [1, 2]})
    make_row(audit, markers=[foreign_marker()])
    live = Audit.objects.create(
        deployment=deployment, state=AuditState.RUNNING, requested_by="rita", progress={}
    )
    finding = make_finding(deployment, audit=audit)
    incident = bring_to(make_incident(deployment, findings=[finding]), Status.DECLARED)
    evidence_keep(incident=incident, title="readings", document="x", actor="run 1")
    run = run_start(person=responder, incident=incident, book="cross_tenant_kv_exposure")
    token_add(name="ci", actor="rita", lasts=timedelta(days=9))
    listed = ("overview", "deployment_list", "audit_list", "incident_list", "run_list")
    plain = (*listed, "api_token_list", "api_token_add")
    named = ("deployment", "deployment_change", "node_add", "credentials_set", "grant_change")
    return [
        *(reverse(name) for name in (*plain, "deployment_add", "router_import")),
        *(reverse(name, args=["glm"]) for name in (*named, "deployment_incident", "router")),
        reverse("node_retire", args=["glm", "prefill-1"]),
        reverse("attestation_list", args=["glm"]),
        reverse("attestation_add", args=["glm"]),
        reverse("audit", args=[audit.pk]),
        reverse("audit", args=[live.pk]),
        reverse("audit_answers", args=[audit.pk]),
        reverse("incident", args=[incident.reference]),
        reverse("incident_runs", args=[incident.reference]),
        reverse("run", args=[run.pk]),
        "/nothing-here/",
    ]
