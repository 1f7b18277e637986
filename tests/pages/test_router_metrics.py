"""A router's stored metrics address: kept by form and file, and its breakers on the pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from fleet.exporting import fleet_export
from fleet.importing import fleet_import
from fleet.models import Deployment
from fleet.portable import fleet_text, read_fleet
from tests.deployments import Register
from tests.incidents.builders import make_deployment
from tests.pages.asking import ask_fragment, words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

PAGE = "/deployments/drill/router/"


class Metrics:
    """A Prometheus page on loopback that says what a test wants."""

    def __init__(self) -> None:
        self.text, self.status = "", 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.text.encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:  # noqa: ANN401 - its signature
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"

    def shows(self, *states: tuple[str, int]) -> None:
        """Say the state of each worker's breaker. Source: fleet/breakers.py."""
        lines = (f'smg_worker_cb_state{{worker="{url}"}} {state}\n' for url, state in states)
        self.text = "# TYPE smg_worker_cb_state gauge\n" + "".join(lines)


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    page = Metrics()
    thread = threading.Thread(target=page.server.serve_forever, daemon=True)
    thread.start()
    yield page
    page.server.shutdown()
    thread.join()
    page.server.server_close()


@pytest.fixture
def urls(register: Register, metrics: Metrics) -> tuple[str, str]:
    """Store a drill with this metrics page; answer the addresses of prefill and decode."""
    deployment, drill = register("--scenario", "healthy")
    deployment.router_metrics_url = metrics.url
    deployment.save()
    return drill.nodes[0]["url"], drill.nodes[1]["url"]


def test_an_open_breaker_shows_beside_its_node_and_on_the_deployment_page(
    by_outsider: Client, metrics: Metrics, urls: tuple[str, str]
) -> None:
    metrics.shows((urls[0], 0), (urls[1], 1))
    words = words_of(by_outsider.get(PAGE))
    assert "listed as prefill, healthy closed" in words
    assert "listed as decode, healthy ✕ open" in words
    brief = words_of(ask_fragment(by_outsider, PAGE, "router_brief"))
    assert "2 of 2 nodes" in brief
    assert "Circuit breaker of decode-1: ✕ open" in brief
    assert "prefill-1" not in brief
    holder = by_outsider.get("/deployments/drill/").content.decode()
    assert 'id="router_brief"' in holder
    assert f'hx-get="{PAGE}"' in holder


def test_closed_is_said_only_of_what_is_shown(
    by_outsider: Client, metrics: Metrics, urls: tuple[str, str]
) -> None:
    metrics.shows((urls[0], 0), (urls[1], 0))
    all_closed = "Every circuit breaker of the listed nodes is closed."
    assert all_closed in words_of(ask_fragment(by_outsider, PAGE, "router_brief"))
    metrics.shows((urls[0], 0))
    brief = words_of(ask_fragment(by_outsider, PAGE, "router_brief"))
    assert all_closed not in brief
    assert "Circuit breaker of decode-1: not shown" in brief
    metrics.shows((urls[0], 0), (f"{urls[1]}@0", 1), (f"{urls[1]}@1", 0))
    assert "decode-1: ✕ open" in words_of(ask_fragment(by_outsider, PAGE, "router_brief"))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((503, ""), "the router's metrics answered with 503"),
        ((200, "<html>hello</html>"), "shows no circuit breaker"),
        (None, "the router's metrics cannot be asked"),
    ],
    ids=["status", "another page", "refused"],
)
@pytest.mark.usefixtures("urls")
def test_metrics_that_cannot_be_read_are_said_and_nothing_is_called_closed(
    by_outsider: Client, metrics: Metrics, answer: tuple[int, str] | None, says: str
) -> None:
    if answer is None:
        Deployment.objects.update(router_metrics_url="http://127.0.0.1:9/metrics")
    else:
        metrics.status, metrics.text = answer
    whole = words_of(by_outsider.get(PAGE))
    assert "listed as prefill, healthy" in whole
    for words in (whole, words_of(ask_fragment(by_outsider, PAGE, "router_brief"))):
        assert "Its circuit breakers are not known" in words
        assert says in words
        assert "closed" not in words


def test_without_the_address_the_page_says_that_breakers_are_not_read(
    by_responder: Client, urls: tuple[str, str]
) -> None:
    assert urls
    Deployment.objects.update(router_metrics_url="")
    page = by_responder.get(PAGE)
    assert "Its circuit breakers are not read" in words_of(page)
    assert reverse("deployment_change", args=["drill"]) in page.content.decode()


def test_the_form_keeps_it_under_the_address_policy(
    by_responder: Client,
    settings: Settings,
) -> None:
    make_deployment("glm")
    form = {
        "name": "glm",
        "model": "glm-5.3",
        "engine": "sglang",
        "headroom": "1.25",
        "granted_tokens": "0",
        "router_metrics_url": "127.0.0.1:29000/metrics",
    }
    address = reverse("deployment_change", args=["glm"])
    by_responder.post(address, form)
    assert Deployment.objects.get().router_metrics_url == "http://127.0.0.1:29000/metrics"
    assert "127.0.0.1:29000/metrics" in by_responder.get(address).content.decode()
    for refused in ("http://169.254.169.254/metrics", "ftp://127.0.0.1/metrics"):
        response = by_responder.post(address, {**form, "router_metrics_url": refused})
        assert 'id="id_router_metrics_url_error"' in response.content.decode()
    settings.OUTBOUND_DENY = "127.0.0.0/8"
    assert by_responder.post(address, form).status_code == 200
    grant = reverse("grant_change", args=["glm"])
    by_responder.post(grant, {"granted_tokens": "5"})
    assert Deployment.objects.get().router_metrics_url == "http://127.0.0.1:29000/metrics"


def test_a_look_by_router_reads_it_and_adding_stores_it(
    by_responder: Client, metrics: Metrics, urls: tuple[str, str]
) -> None:
    router = Deployment.objects.get().router_url
    metrics.shows((urls[1], 2))
    typed = {"name": "found", "router_url": router, "router_metrics_url": metrics.url}
    seen = words_of(by_responder.post(reverse("router_import"), {**typed, "look": "1"}))
    assert f"the circuit breaker of {urls[1]} is half open" in seen
    by_responder.post(reverse("router_import"), {**typed, "add": "1"})
    assert Deployment.objects.get(name="found").router_metrics_url == metrics.url


def test_it_is_exported_and_imported() -> None:
    deployment = make_deployment("glm")
    deployment.router_metrics_url = "http://10.0.0.9:29000/metrics"
    deployment.save()
    text = fleet_text(fleet_export())
    assert json.loads(text)["deployments"][0]["router_metrics_url"] == deployment.router_metrics_url
    fleet_import(actor="ada", entries=read_fleet(text.replace("29000", "29001")))
    deployment.refresh_from_db()
    assert deployment.router_metrics_url == "http://10.0.0.9:29001/metrics"
    old = json.loads(text)
    del old["deployments"][0]["router_metrics_url"]
    assert read_fleet(json.dumps(old))[0].router_metrics_url == ""
