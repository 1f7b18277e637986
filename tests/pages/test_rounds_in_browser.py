"""Rounds of an audit in a real Chromium: drawn, and each marker followed to its origin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from tests.incidents.builders import foreign_marker, make_audit, make_deployment, make_row
from tests.pages.browsing import Opener, faults_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("_parts_up"),
]


def test_a_marker_leads_to_its_origin_in_a_folded_list(
    open_page: Opener, complaints: list[str], responder: User
) -> None:
    audit = make_audit(make_deployment("glm"), rounds=[{"number": 1, "plan": "churn"}])
    origin = make_row(audit, position=0, part="fill", tenant="tenant-a", request="00cafe")
    for position in range(1, 10):
        make_row(audit, position=position, duty="answer", echo="whole")
    make_row(audit, position=10, markers=[foreign_marker()])
    page = open_page(responder, width=390, scheme="dark")
    page.goto(f"/audits/{audit.pk}/")
    expect(page.locator("#drawing-1 .point path").first).to_be_attached()
    there = page.locator(f"[id='row-{origin.pk}']")
    expect(there).to_be_hidden()
    page.get_by_role("link", name="00cafe").click()
    expect(there).to_be_visible()
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert complaints == []
