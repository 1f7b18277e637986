"""A real Chromium in which a person is signed in, and what it complains about."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from django.contrib.auth.models import User
from playwright.sync_api import Browser, ConsoleMessage, Page, expect
from pytest_django.live_server_helper import LiveServer

Opener = Callable[..., Page]


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


def faults_of(page: Page) -> list[tuple[str, object]]:
    """Answer what keeps people from using the page, each with the first place."""
    faults = Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["target"]) for one in faults]
