"""Pages in a real Chromium: no accessibility fault, and nothing moves under the hand."""

from __future__ import annotations

from tempfile import NamedTemporaryFile

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect
from pytest_django import Settings

from probes.proof_bundle import new_keys, sign
from probes.tokens import TokenUnknown, token_use
from runbooks.models import Run, StepState
from tests.deployments import Register
from tests.incidents.builders import make_deployment, make_node, make_proof
from tests.pages.browsing import Opener, faults_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("_parts_up"),
]

#: Longer than the slowest poll of the pages under test.
POLLED_MS = 15_000


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
        assert faults_of(page) == [], address
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


def test_a_token_is_issued_kept_and_revoked_by_hand(
    open_page: Opener, complaints: list[str], responder: User
) -> None:
    page = open_page(responder, width=390)
    page.get_by_role("link", name="API tokens").click()
    page.get_by_role("link", name="Issue token").click()
    page.get_by_label("Name").fill("ci")
    page.get_by_role("button", name="Issue token").click()
    text = page.get_by_label("Token ci").input_value()
    assert token_use(text=text).name == "ci"
    assert faults_of(page) == []
    page.get_by_role("link", name="I have kept it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("API tokens")
    assert text not in page.content()
    expect(page.get_by_role("button", name="Revoke ci")).to_be_hidden()
    page.locator("#revoke-ci > summary").click()
    assert faults_of(page) == []
    page.get_by_role("button", name="Revoke ci").click()
    expect(page.get_by_text("ci is revoked")).to_be_visible()
    with pytest.raises(TokenUnknown):
        token_use(text=text)
    assert complaints == []


def test_the_way_back_leads_to_no_kept_copy_of_a_token(open_page: Opener, responder: User) -> None:
    page = open_page(responder)
    page.goto("/api-tokens/add/")
    page.get_by_label("Name").fill("ci")
    page.get_by_role("button", name="Issue token").click()
    page.get_by_role("link", name="I have kept it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("API tokens")
    with pytest.raises(PlaywrightError, match="ERR_CACHE_MISS"):
        page.go_back()


def test_a_node_is_retired_by_hand_once_its_name_is_typed(
    open_page: Opener, complaints: list[str], responder: User
) -> None:
    node = make_node(make_deployment("glm"), "prefill-1")
    page = open_page(responder)
    page.goto("/deployments/glm/")
    page.get_by_role("link", name="Retire prefill-1").click()
    act = page.get_by_role("button", name="Retire prefill-1", exact=True)
    expect(act).to_be_hidden()
    page.locator("#retire > summary").click()
    expect(act).to_be_disabled()
    assert faults_of(page) == []
    page.get_by_label("Type prefill-1 to confirm").fill("prefill-1")
    act.click()
    expect(page.get_by_text("prefill-1 is retired")).to_be_visible()
    node.refresh_from_db()
    assert node.retired_at is not None
    assert complaints == []


def test_the_router_shows_on_its_deployment_page_by_itself(
    open_page: Opener, complaints: list[str], responder: User, register: Register
) -> None:
    deployment, _ = register("--scenario", "healthy")
    deployment.router_metrics_url = "http://127.0.0.1:9/metrics"
    deployment.save()
    page = open_page(responder, width=390, scheme="dark")
    page.goto("/deployments/drill/")
    brief = page.locator("section#router_brief")
    expect(brief).to_contain_text("ready: 2 of 2 healthy")
    expect(brief).to_contain_text("Its circuit breakers are not known")
    assert faults_of(page) == []
    brief.get_by_role("link", name="What it lists").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Router of drill")
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert complaints == []


def test_a_proof_is_downloaded_with_the_key_that_checks_it(
    open_page: Opener, complaints: list[str], responder: User, settings: Settings
) -> None:
    private, public = new_keys()
    proof = make_proof(make_deployment("glm"))
    # Of a made-up audit: what it says is not looked at here.
    proof.bundle = sign(b"{}", private.encode())
    proof.save()
    page = open_page(responder, width=390)
    page.goto(f"/audits/{proof.audit_id}/")
    assert faults_of(page) == []
    with page.expect_download() as given:
        page.get_by_role("link", name="Download proof").click()
    assert given.value.suggested_filename == f"glm-audit-{proof.audit_id}.proof.json"
    assert given.value.path().read_text() == proof.bundle
    with NamedTemporaryFile("w") as key_file:
        key_file.write(private)
        key_file.flush()
        settings.PROOF_KEY_FILE = key_file.name
        with page.expect_download() as given:
            page.get_by_role("link", name="Public key").click()
        assert given.value.path().read_text() == public
    assert complaints == []
