from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
import time_machine
from django.test import Client
from pytest_django import Settings

from common import health
from common.clock import now
from common.health import PartDown, redis_address
from common.models import WorkerBeat


class _Broker(socketserver.StreamRequestHandler):
    """Answers every command: PING as a broker does, all else with OK."""

    def handle(self) -> None:
        while header := self.rfile.readline():
            words = [self.rfile.readline() for _ in range(2 * int(header[1:]))]
            self.wfile.write(b"+PONG\r\n" if words[1].strip() == b"PING" else b"+OK\r\n")


@pytest.fixture
def _live_broker(settings: Settings) -> Iterator[None]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Broker) as server:
        settings.BROKER_URL = f"redis://127.0.0.1:{server.server_address[1]}/0"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.fixture
def _dead_broker(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings.BROKER_URL = f"redis://127.0.0.1:{port}/0"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_live_broker")
def test_all_parts_up_answer_ok_without_sign_in() -> None:
    WorkerBeat.beat()
    response = Client().get("/healthz")
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response.json() == {
        "status": "ok",
        "parts": {
            "database": {"state": "up"},
            "broker": {"state": "up"},
            "worker": {"state": "up"},
        },
    }


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_dead_broker")
def test_a_dead_broker_is_down_and_says_so() -> None:
    WorkerBeat.beat()
    response = Client().get("/healthz")
    assert response.status_code == 503
    document = response.json()
    assert document["status"] == "down"
    assert document["parts"]["database"] == {"state": "up"}
    assert document["parts"]["broker"]["state"] == "down"
    assert "the broker does not answer" in document["parts"]["broker"]["why"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_live_broker")
def test_a_worker_that_stopped_beating_is_down() -> None:
    with time_machine.travel(now() - timedelta(seconds=16)):
        WorkerBeat.beat()
    response = Client().get("/healthz")
    assert response.status_code == 503
    worker = response.json()["parts"]["worker"]
    assert worker["state"] == "down"
    assert "no worker has beaten for" in worker["why"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_live_broker")
def test_no_worker_ever_is_down() -> None:
    worker = Client().get("/healthz").json()["parts"]["worker"]
    assert worker["state"] == "down"
    assert "no worker has started" in worker["why"]


@pytest.mark.usefixtures("_dead_broker")
def test_a_dead_database_answers_json_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_parameters: object) -> None:
        raise psycopg.OperationalError("connection refused\nsecond line")

    monkeypatch.setattr(psycopg, "connect", refuse)
    asked_at = time.monotonic()
    response = Client().get("/healthz")
    assert time.monotonic() - asked_at < 5
    assert response.status_code == 503
    parts = response.json()["parts"]
    assert parts["database"] == {
        "state": "down",
        "why": "the database does not answer: connection refused",
    }
    assert parts["worker"]["state"] == "down"


def test_a_database_that_never_answers_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = {"host": "127.0.0.1", "port": silent.getsockname()[1], "dbname": "x"}
        monkeypatch.setattr("common.health.connection.get_connection_params", lambda: place)
        asked_at = time.monotonic()
        with pytest.raises(PartDown, match="does not answer"):
            health.ask_database()
        assert time.monotonic() - asked_at < 5


@pytest.mark.parametrize(
    ("kombu", "client"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis+socket:///run/valkey.sock", "unix:///run/valkey.sock?db=0"),
        ("redis+socket:///run/valkey.sock?virtual_host=3", "unix:///run/valkey.sock?db=3"),
        ("redis+socket://:pw@/run/v.sock?virtual_host=/1", "unix://:pw@/run/v.sock?db=1"),
    ],
)
def test_broker_addresses_of_kombu_are_read(kombu: str, client: str) -> None:
    assert redis_address(kombu) == client
