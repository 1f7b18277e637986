"""The page that traces a text: origins in the answer, the text nowhere."""

from __future__ import annotations

import pytest
from django.test import Client

from probes.canary.rounds import Tenant
from probes.marker_registry import secret_keep
from probes.markers import Marker, MarkerKey
from tests.incidents.builders import make_audit, make_deployment, make_row
from tests.pages.asking import words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

SECRET = bytes(range(32))


def test_the_page_tells_the_origin_and_keeps_no_text(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    tenants = [Tenant(number=1, name="tenant-a", key="sk-a")]
    secret_keep(deployment=deployment, secret=SECRET, tenants=tenants)
    audit = make_audit(deployment)
    row = make_row(audit, tenant="tenant-a", request="00cafe")
    code = MarkerKey(SECRET).write(Marker(tenant=1, request=0xCAFE, page=17))
    answer = by_responder.post("/trace/", {"text": f"seen: {code}"})
    words = words_of(answer)
    assert "tenant-a, request 00cafe" in words
    assert "certain" in words
    assert f"audit {audit.pk}" in words
    assert f"/audits/{audit.pk}/#row-{row.pk}" in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    assert "No marker of ours" in words_of(by_responder.post("/trace/", {"text": "plain"}))


def test_the_form_is_shown_to_responders_alone(by_responder: Client, by_outsider: Client) -> None:
    assert "Trace a text" in words_of(by_responder.get("/trace/"))
    assert by_outsider.get("/trace/").status_code == 403
