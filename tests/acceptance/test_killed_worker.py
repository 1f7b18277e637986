"""`kill -9` of the worker in the middle of the disable step: the run goes on, with one effect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection

from fleet.models import Deployment, OutOfRotation
from incidents.contract import Source, Status
from incidents.models import Incident
from incidents.services import incident_declare, incident_open
from probes.judgement import Kind
from runbooks.models import Run, RunStep, StepState
from runbooks.services import run_start, step_start
from tests.acceptance.conftest import ROOT
from tests.deployments import Register

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]
WITHIN_S = 90


class MutedRouter(ThreadingHTTPServer):
    """Stands before a real router; does the first removal and never says so."""

    daemon_threads = True

    def __init__(self, router: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.router = router
        self.removed = threading.Event()
        self.released = threading.Event()
        self.removals: Counter[str] = Counter()


class _Forward(BaseHTTPRequestHandler):
    """Forwards one request as it is."""

    server: MutedRouter
    protocol_version = "HTTP/1.0"

    def _forward(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        request = urllib.request.Request(  # noqa: S310 - loopback
            self.server.router + self.path,
            data=self.rfile.read(length) if length else None,
            headers={"content-type": "application/json"},
            method=self.command,
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310 - loopback
                status, body = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                status, body = error.code, error.read()
        if self.command == "DELETE":
            self.server.removals[self.path] += 1
            if not self.server.removed.is_set():
                self.server.removed.set()
                self.server.released.wait(WITHIN_S)
                return
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _forward  # noqa: N815 - the base's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        """Say nothing."""


@pytest.fixture
def muted(register: Register) -> Iterator[tuple[Deployment, MutedRouter]]:
    deployment, drill = register("--scenario", "september")
    server = MutedRouter(drill.router)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    deployment.router_url = f"http://127.0.0.1:{server.server_address[1]}"
    deployment.save()
    yield deployment, server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


def start_worker() -> subprocess.Popen[bytes]:
    """Start a real Celery worker on the test's own database."""
    parameters = connection.settings_dict
    user, password, host, port, name = (
        quote(str(parameters[part]), safe="")
        for part in ("USER", "PASSWORD", "HOST", "PORT", "NAME")
    )
    place = f"{host}:{port}" if port else host
    url = f"postgresql://{user}:{password}@{place}/{name}"
    return subprocess.Popen(  # noqa: S603 - our own command
        [
            *(sys.executable, "-m", "celery", "-A", "config.celery", "worker"),
            *("--pool", "threads", "--concurrency", "2", "--loglevel", "WARNING"),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PAGEWARDEN_SEALING_KEY_FILE": settings.SEALING_KEY_FILE,
            "PAGEWARDEN_SECRET_KEY": settings.SECRET_KEY,
            "PAGEWARDEN_TICK_EVERY_S": "1",
        },
    )


def wait_for(run: Run, key: str, state: StepState) -> RunStep:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        step = run.steps.get(key=key)
        if step.state == state:
            return step
        assert step.state != StepState.FAILED, step.outcome
        time.sleep(0.2)
    raise AssertionError(f"{key} is {step.state}: {step.progress or step.outcome}")


def done_by_another_worker(run: Run) -> RunStep:
    second = start_worker()
    try:
        return wait_for(run, "disable", StepState.DONE)
    finally:
        second.terminate()
        second.wait(timeout=20)


def declared_run(deployment: Deployment, responder: User, commander: User) -> Run:
    incident = incident_open(
        deployment=deployment, kind=Kind.LEAK, title="t", source=Source.CANARY, actor="audit 1"
    )
    incident_declare(person=commander, incident=incident)
    incident = Incident.objects.get(pk=incident.pk)
    return run_start(person=responder, incident=incident, book="cross_tenant_kv_exposure")


def test_a_killed_worker_costs_no_second_removal(
    muted: tuple[Deployment, MutedRouter], responder: User, commander: User
) -> None:
    deployment, server = muted
    run = declared_run(deployment, responder, commander)
    first = start_worker()
    try:
        step_start(person=responder, step=wait_for(run, "disable", StepState.WAITING))
        assert server.removed.wait(WITHIN_S)
        assert OutOfRotation.objects.filter(put_back_at=None).count() == 2
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    server.released.set()
    assert run.steps.get(key="disable").state == StepState.RUNNING
    done = done_by_another_worker(run)
    assert done.attempts >= 2
    assert "2 workers out" in done.outcome
    assert set(server.removals.values()) == {1}
    assert len(server.removals) == 2
    assert OutOfRotation.objects.count() == 2
    incident = Incident.objects.get(pk=run.incident_id)
    assert incident.status == Status.CONTAINED
    assert incident.events.filter(kind="step_done", body__step="disable").count() == 1
