"""What every test may use: people, the drill cluster, and a flush that append-only tables allow."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from playwright.sync_api import Browser, sync_playwright

from common.roles import Role
from tests.deployments import DrillCluster, DrillStarter, Register, registrar

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def free_ports() -> Callable[[], int]:
    """Answer a first port of ten that nothing else in this run uses, below the ephemeral range."""
    places = range(22_000, 31_000, 10)
    first = os.getpid() % len(places)
    taken = cycle([*places[first:], *places[:first]])
    return lambda: next(taken)


@pytest.fixture
def start_drill(free_ports: Callable[[], int]) -> Iterator[DrillStarter]:
    """Start drill clusters by their command-line figures; they end with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> DrillCluster:
        command = [sys.executable, "-m", "drill", "--base-port", str(free_ports()), *arguments]
        process = subprocess.Popen(  # noqa: S603 - our own module
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        return DrillCluster(
            router=said["router"],
            control=said["control"],
            nodes=tuple(said["nodes"]),
            tenants=tuple(said["tenants"]),
            model=said["model"],
            context=said["context"],
            page_size=said["page_size"],
        )

    yield start
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait(timeout=10)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def register(start_drill: DrillStarter) -> Register:
    """Start drills and store each as the deployment ``drill``."""
    return registrar(start_drill)


def _flush_past_triggers(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:  # noqa: ANN401 - Django's signature
    """Let Django's flush after a transactional test empty append-only tables too."""
    if not str(sql).lstrip().upper().startswith("TRUNCATE"):
        return execute(sql, params, many, context)
    tables = re.findall(r'"(\w+)"', str(sql))
    if len(tables) < 2:
        # The flush names every table at once; a test that truncates one wants to be refused.
        return execute(sql, params, many, context)
    with context["connection"].connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f'ALTER TABLE "{table}" DISABLE TRIGGER USER')
        result = execute(sql, params, many, context)
        for table in tables:
            cursor.execute(f'ALTER TABLE "{table}" ENABLE TRIGGER USER')
    return result


@receiver(connection_created)
def _allow_flush(connection: Any, **_kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
    """Give every connection of the run the exception for the flush, once."""
    if _flush_past_triggers not in connection.execute_wrappers:
        connection.execute_wrappers.append(_flush_past_triggers)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Answer Debian's Chromium for one module; skip where there is none.

    Not for the whole session: while Playwright runs, no other event loop may run in this thread.
    """
    path = os.environ.get("PAGEWARDEN_CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.skip("no Chromium is on this machine, and it could not be installed")
    # Playwright's loop makes Django take this thread for an asynchronous one, which it is not.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            chromium_sandbox=False,
            args=[
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-quic",
            ],
        )
        yield browser
        browser.close()
    monkeypatch.undo()


def make_person(name: str, role: Role | None = None) -> User:
    """Answer a person, in the group of a role where one is given."""
    person = User.objects.create_user(name, password=f"{name}-password-1")
    if role is not None:
        group, _ = Group.objects.get_or_create(name=role.value)
        person.groups.add(group)
    return person


@pytest.fixture
def responder(db: None) -> User:  # noqa: ARG001 - a fixture, wanted for what it does
    """Answer a responder."""
    return make_person("rita", Role.RESPONDER)


@pytest.fixture
def commander(db: None) -> User:  # noqa: ARG001 - as above
    """Answer a commander."""
    return make_person("carl", Role.COMMANDER)


@pytest.fixture
def outsider(db: None) -> User:  # noqa: ARG001 - as above
    """Answer somebody who can sign in and has no role."""
    return make_person("oscar")
