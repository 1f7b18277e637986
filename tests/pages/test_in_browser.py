"""Pages in a real Chromium: no accessibility fault, and nothing moves under the hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from django.contrib.auth.models import User
from playwright.sync_api import Browser, ConsoleMessage, Page, expect
from pytest_django.live_server_helper import LiveServer

from runbooks.models import Run, StepState

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("_parts_up"),
]

Opener = Callable[..., Page]
#: Longer than the slowest poll of the pages under test.
POLLED_MS = 15_000


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, complaints: list[str]) -> Iterator[Opener]:
    """Sign a person in to a page of a certain look; every complaint of the browser is kept."""
    contexts = []

    def keep_errors(said: ConsoleMessage) -> None:
        if said.type == "error":
            complaints.append(said.text)

    def open_as(person: User, *, width: int = 1440, scheme: str = "light") -> Page:
        context = browser.new_context(
            base_url=live_server.url,
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", keep_errors)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto("/sign-in/")
        page.get_by_label("Name").fill(person.username)
        page.get_by_label("Password").fill(f"{person.username}-password-1")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        return page

    yield open_as
    for context in contexts:
        context.close()


@pytest.mark.parametrize("look", [(1440, "light"), (390, "dark")], ids=["wide", "phone"])
def test_no_page_has_an_accessibility_fault_or_breaks_the_content_policy(
    look: tuple[int, str],
    open_page: Opener,
    complaints: list[str],
    responder: User,
    addresses: list[str],
) -> None:
    width, scheme = look
    page = open_page(responder, width=width, scheme=scheme)
    for address in addresses:
        page.goto(address)
        page.wait_for_load_state("networkidle")
        faults = Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["target"]) for one in faults] == [], address
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
    # The last address is the one that is not there.
    assert [said for said in complaints if "404" not in said] == []


def test_a_chart_is_drawn_and_follows_the_theme(
    open_page: Opener, responder: User, addresses: list[str]
) -> None:
    page = open_page(responder)
    page.goto(addresses[0])
    bar = page.locator(".point path").first
    expect(bar).to_be_attached()
    colour = "element => getComputedStyle(element).fill"
    light = bar.evaluate(colour)
    page.get_by_label("Theme").select_option("dark")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    assert page.locator(".point path").first.evaluate(colour) != light
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")


@pytest.mark.usefixtures("addresses")
def test_a_step_that_moves_on_is_marked_and_said_once(open_page: Opener, commander: User) -> None:
    run = Run.objects.get()
    page = open_page(commander)
    page.goto(f"/runs/{run.pk}/")
    _let_wait_for_approval(run)
    expect(page.locator("#live")).to_contain_text(
        "Restore: needs a second person", timeout=POLLED_MS
    )
    expect(page.locator("#approve > summary")).to_be_visible()


@pytest.mark.usefixtures("addresses")
def test_open_details_and_typed_words_survive_a_refresh(open_page: Opener, commander: User) -> None:
    run = Run.objects.get()
    _let_wait_for_approval(run)
    page = open_page(commander)
    page.goto(f"/runs/{run.pk}/")
    page.locator("#approve > summary").click()
    approve = page.get_by_role("button", name="Approve and act")
    expect(approve).to_be_disabled()
    run.steps.filter(key="tell").update(title="Tell everybody")
    expect(page.get_by_role("heading", name="Tell everybody").first).to_be_visible(
        timeout=POLLED_MS
    )
    expect(page.locator("#approve")).to_have_attribute("open", "")
    page.locator("#approve-typed").fill(run.incident.deployment.name)
    run.steps.filter(key="tell").update(title="Tell nobody")
    with page.expect_response(lambda answer: f"/runs/{run.pk}/" in answer.url, timeout=POLLED_MS):
        pass
    expect(page.locator("#approve-typed")).to_have_value(run.incident.deployment.name)
    expect(approve).to_be_enabled()


def _let_wait_for_approval(run: Run) -> None:
    restore = run.steps.get(key="restore")
    run.steps.filter(position__lt=restore.position).update(state=StepState.DONE)
    run.steps.filter(pk=restore.pk).update(state=StepState.WAITING)


@pytest.mark.usefixtures("addresses")
def test_the_pages_work_without_a_mouse(open_page: Opener, responder: User) -> None:
    page = open_page(responder)
    page.wait_for_load_state()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("nothing is called so")
    expect(page.locator("#deployments [data-row]").first).to_be_hidden()
    expect(page.locator("#live")).to_have_text("0 of 1 shown")
    page.locator("#search").fill("")
    page.locator("#search").blur()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", level=1)).to_have_text("Incidents")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()


def test_a_session_that_ended_leads_to_the_sign_in_page(
    open_page: Opener, responder: User, addresses: list[str]
) -> None:
    run = addresses[-2]
    page = open_page(responder)
    page.goto(run)
    page.context.clear_cookies()
    expect(page.get_by_label("Password")).to_be_visible(timeout=POLLED_MS)
