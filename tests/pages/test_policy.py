"""Rules that every page keeps: the content policy, no inline script or style, one heading."""

from __future__ import annotations

import re
from pathlib import Path

import plotly
import pytest
from django.test import Client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", re.IGNORECASE)
_HANDLER = re.compile(r"<[^>]+\s(?:on\w+|style|hx-on[^=]*)\s*=", re.IGNORECASE)


def test_every_page_keeps_the_content_policy(by_responder: Client, addresses: list[str]) -> None:
    for address in [*addresses, "/sign-in/"]:
        response = by_responder.get(address, follow=True)
        policy = response["Content-Security-Policy"]
        assert "default-src 'self'" in policy, address
        assert "unsafe" not in policy, address
        page = response.content.decode()
        assert not _SCRIPT.search(page), address
        assert not _HANDLER.search(page), address
        assert "<style" not in page, address


def test_every_page_has_one_heading_and_a_way_past_the_navigation(
    by_responder: Client, addresses: list[str]
) -> None:
    for address in addresses:
        page = by_responder.get(address).content.decode()
        assert page.count("<h1") == 1, address
        assert page.count("<main") == 1, address
        if "side-foot" in page:
            assert 'href="#main"' in page, address


def test_every_id_stands_once(by_responder: Client, addresses: list[str]) -> None:
    for address in addresses:
        ids = re.findall(r'\sid="([^"]+)"', by_responder.get(address).content.decode())
        assert len(ids) == len(set(ids)), address


def test_every_label_has_its_field(by_responder: Client, addresses: list[str]) -> None:
    for address in addresses:
        page = by_responder.get(address).content.decode()
        for target in re.findall(r'<label[^>]*\bfor="([^"]+)"', page):
            assert f'id="{target}"' in page, (address, target)


def test_what_keeps_plotly_from_inline_styles_is_what_its_script_looks_for() -> None:
    guards = (TEMPLATES / "components" / "chart_scripts.html").read_text(encoding="utf-8")
    script = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(
        encoding="utf-8"
    )
    (maps,) = re.findall(r'<template id="([0-9a-f]+)">', guards)
    assert f'getElementById("{maps}")' in script
    assert '"plotly.js-style-"' in script
    assert ".no-inline-styles" in script
    assert 'id="plotly.js-style-global"' in guards
    assert 'class="no-inline-styles"' in guards


@pytest.mark.parametrize("template", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_every_template_opens_with_what_it_is_given(template: Path) -> None:
    first = template.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("{# ")
    assert "Context:" in first
