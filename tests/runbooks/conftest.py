"""A declared incident of a deployment, and a runbook of made-up steps whose world a test sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import User

from fleet.models import Deployment
from incidents.contract import Source, Status
from incidents.models import Incident
from incidents.services import incident_declare, incident_open
from probes.judgement import Kind
from runbooks.contract import (
    BOOKS,
    STEPS,
    Advance,
    Runbook,
    StepError,
    StepPlan,
    Work,
    again,
    done,
)


@dataclass(slots=True)
class World:
    """What the made-up steps find and do."""

    is_ready: bool = True
    breaks: str = ""
    undo_breaks: str = ""
    acts: list[str] = field(default_factory=list)


WORLD = World()


class MadeUpStep:
    """Acts once, then waits until the world is ready."""

    title = "Made-up step"

    def advance(self, work: Work) -> Advance:
        if WORLD.breaks:
            raise StepError(WORLD.breaks)
        if "acted" not in work.step.memory:
            work.remember(acted=True)
            WORLD.acts.append(work.step.title)
        return done("the world is ready") if WORLD.is_ready else again("waiting for the world")

    def undo(self, work: Work) -> None:
        if WORLD.undo_breaks:
            raise StepError(WORLD.undo_breaks)
        WORLD.acts.append(f"undo {work.step.title}")


class MadeUpBook:
    """One step by itself, one started by hand, one approved, one manual."""

    def runbook(self) -> Runbook:
        def plan(title: str, **options: Any) -> StepPlan:  # noqa: ANN401 - fields of StepPlan
            return StepPlan(
                key="made_up", title=title, what="acts", if_it_fails="nothing", **options
            )

        return Runbook(
            key="made_up",
            version=3,
            title="Made-up runbook",
            summary="for tests",
            steps=(
                plan("first"),
                plan("started", needs_start=True),
                plan("approved", needs_approval=True),
                plan("told", is_manual=True),
            ),
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setitem(STEPS._members, "made_up", MadeUpStep())  # noqa: SLF001 - the registry's store
    monkeypatch.setitem(BOOKS._members, "made_up", MadeUpBook())  # noqa: SLF001 - as above
    WORLD.is_ready, WORLD.breaks, WORLD.undo_breaks = True, "", ""
    WORLD.acts.clear()
    return WORLD


@pytest.fixture
def incident(db: None, commander: User) -> Incident:  # noqa: ARG001 - wanted for what it does
    deployment = Deployment.objects.create(name="one", model="m")
    incident = incident_open(
        deployment=deployment,
        kind=Kind.LEAK,
        title="Foreign text",
        source=Source.CANARY,
        actor="audit 1",
    )
    incident_declare(person=commander, incident=incident)
    incident.refresh_from_db()
    assert incident.status == Status.DECLARED
    return incident
