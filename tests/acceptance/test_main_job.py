"""The whole main job by clicks, with two people: from sign-in to the downloaded post-mortem."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.conftest import Running

pytestmark = [pytest.mark.browser, pytest.mark.timeout(420)]
SOON_MS = 30_000
LATER_MS = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody at a browser of their own, and what that browser complained about."""

    page: Page
    complaints: list[str]


def sign_in(browser: Browser, up: Running, name: str) -> Person:
    page = browser.new_context(accept_downloads=True).new_page()
    page.set_default_timeout(SOON_MS)
    complaints: list[str] = []
    page.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(up.url)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(up.passwords[name])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    return Person(page=page, complaints=complaints)


@pytest.fixture
def people(browser: Browser, up: Running) -> Iterator[tuple[Person, Person]]:
    responder, commander = (sign_in(browser, up, name) for name in ("responder", "commander"))
    yield responder, commander
    for person in (responder, commander):
        person.page.context.close()


def test_the_main_job_by_clicks(people: tuple[Person, Person], up: Running, tmp_path: Path) -> None:
    responder, commander = people
    _audit_catches_the_fault(responder.page)
    reference = _accepted_round_opens_an_incident(responder.page)
    _commander_declares(commander.page, reference)
    run_url = _run_to_the_restore(responder.page, reference)
    _second_person_approves(responder.page, commander.page, run_url)
    _responder_tells(responder.page)
    _commander_closes(commander.page, up, reference)
    _postmortem_is_downloaded(commander.page, up, reference, tmp_path)
    assert responder.complaints == []
    assert commander.complaints == []


def go(page: Page, where: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=where).first.click()


def _audit_catches_the_fault(page: Page) -> None:
    page.get_by_role("link", name="drill", exact=True).first.click()
    page.get_by_role("button", name="Run audit").click()
    verdict = page.locator("main")
    expect(verdict).to_contain_text(
        "prefill-1 refuses from 10,618 what decode-1 admits to 16,377", timeout=SOON_MS
    )
    expect(verdict).to_contain_text("10,618 to 16,383")
    expect(verdict).to_contain_text("not exercised")
    expect(verdict).to_contain_text("fail")


def _accepted_round_opens_an_incident(page: Page) -> str:
    go(page, "Deployments")
    page.get_by_role("link", name="drill", exact=True).click()
    expect(page.locator("main")).to_contain_text("A pair is exposed")
    page.locator("#accept summary").click()
    page.get_by_label("Why is the round worth its risk?").fill("Simulated cluster, no customers.")
    page.locator("#accept").get_by_role("button", name="Accept exposure").click()
    main = page.locator("main")
    expect(main).to_contain_text(
        re.compile(r"another request planted: tenant-a, request \w+, page \d+"), timeout=LATER_MS
    )
    # The next tick pulls the finding into an incident.
    go(page, "Incidents")
    link = page.get_by_role("link", name=re.compile(r"^INC-\d{4}-0001"))
    for _ in range(20):
        if link.count():
            break
        page.wait_for_timeout(500)
        page.reload()
    link.first.click()
    expect(main).to_contain_text("In triage")
    expect(page.get_by_role("heading", level=1)).to_contain_text(
        "Another tenant's text in answers of drill"
    )
    heading = page.get_by_role("heading", level=1).inner_text()
    found = re.search(r"INC-\d{4}-\d{4}", heading)
    assert found
    return found.group()


def _commander_declares(page: Page, reference: str) -> None:
    go(page, "Incidents")
    page.get_by_role("link", name=re.compile(reference)).first.click()
    page.get_by_role("button", name="Declare incident").click()
    expect(page.locator("#standing [aria-current=step]")).to_contain_text("declared")
    expect(page.locator("main")).to_contain_text("commanded by commander")


def _run_to_the_restore(page: Page, reference: str) -> str:
    go(page, "Incidents")
    page.get_by_role("link", name=re.compile(reference)).first.click()
    page.get_by_role("button", name="Start run").click()
    steps = page.locator("#steps")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cross-tenant KV exposure")
    expect(steps).to_contain_text("2 of 2 nodes read", timeout=SOON_MS)
    page.get_by_role("button", name=re.compile("Start step.*Take the deployment out")).click()
    expect(steps).to_contain_text("2 workers out, confirmed by the router", timeout=SOON_MS)
    page.get_by_role("button", name=re.compile("Start step.*Fixed engine")).click()
    expect(steps).to_contain_text("0.5.19 → 0.5.22", timeout=SOON_MS)
    expect(steps).to_contain_text("passed with 2 rounds", timeout=LATER_MS)
    expect(page.get_by_role("button", name=re.compile("you started this run"))).to_be_disabled()
    return page.url


def _second_person_approves(responder: Page, commander: Page, run_url: str) -> None:
    commander.goto(run_url)
    commander.locator("#approve summary").click()
    approve = commander.get_by_role("button", name="Approve and act")
    commander.get_by_label(re.compile("Type drill to confirm")).fill("drill")
    approve.click()
    expect(responder.locator("#steps")).to_contain_text(
        "through the router passed", timeout=LATER_MS
    )


def _responder_tells(page: Page) -> None:
    page.locator("#confirm summary").click()
    page.get_by_label("What was done, and who was told?").fill("Customers told by mail at 14:00.")
    page.locator("#confirm").get_by_role("button", name="Confirm done").click()
    expect(page.locator("#steps")).to_contain_text("Every step is done", timeout=SOON_MS)


def _commander_closes(page: Page, up: Running, reference: str) -> None:
    page.goto(f"{up.url}/incidents/{reference}/")
    expect(page.locator("#standing [aria-current=step]")).to_contain_text("restored")
    page.locator("#close summary").click()
    page.get_by_label("Summary, in a sentence").fill("A pool below the context, fixed.")
    page.locator("#close").get_by_role("button", name="Close incident").click()
    expect(page.locator("#standing")).to_contain_text("closed")
    expect(page.locator("main")).to_contain_text("entries verified")
    page.goto(f"{up.url}/deployments/drill/")
    expect(page.locator("main")).to_contain_text("pass")


def _postmortem_is_downloaded(page: Page, up: Running, reference: str, folder: Path) -> None:
    page.goto(f"{up.url}/incidents/{reference}/")
    texts: dict[str, str] = {}
    for form in ("Markdown", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("link", name=re.compile(f"Export {form}")).click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        texts[form] = path.read_text(encoding="utf-8")
    for wanted in (reference, "10,618", "16,377", "0.5.22", "foreign_marker", "2 workers out"):
        assert wanted in texts["Markdown"]
    assert "Customers told by mail" in texts["Markdown"]
    document = json.loads(texts["JSON"])
    assert reference in json.dumps(document)
    for secret in (*up.passwords.values(), *_tenant_keys(up)):
        assert secret not in texts["Markdown"] + texts["JSON"]


def _tenant_keys(up: Running) -> list[str]:
    said = json.loads((up.folder / "drill.json").read_text(encoding="utf-8"))
    return [tenant["api_key"] for tenant in said["tenants"]]
