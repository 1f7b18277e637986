"""What a runbook, a step and a lever must be, and how a step says where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from common.registry import Registry
from fleet.models import Deployment
from incidents.models import Incident
from runbooks.models import Run, RunStep


class RunError(Exception):
    """What was asked cannot be done to this run; the text says why and what can."""


class StepError(Exception):
    """The step cannot reach its outcome; the text says what happened, to which node, what to do."""


class Standing(StrEnum):
    """Where a step stands after one advance."""

    DONE = "done"
    AGAIN = "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What one advance of a step came to.

    ``again`` gives the lease back and is called anew by the tick until the step's deadline.
    """

    standing: Standing
    text: str


def done(text: str) -> Advance:
    """Answer that the step's check passed; the text says what it saw."""
    return Advance(standing=Standing.DONE, text=text)


def again(text: str) -> Advance:
    """Answer that the step waits for the world; the text says for what."""
    return Advance(standing=Standing.AGAIN, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One entry of a runbook as it is written down; a run freezes it.

    ``what`` says what the step will do and cost, ``if_it_fails`` what then stays as it is.
    """

    key: str
    title: str
    what: str
    if_it_fails: str
    needs_start: bool = False
    needs_approval: bool = False
    is_manual: bool = False
    deadline: timedelta = timedelta(minutes=30)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """A versioned list of steps for one class of incident."""

    key: str
    version: int
    title: str
    summary: str
    steps: tuple[StepPlan, ...]


class Book(Protocol):
    """A runbook file: answers the runbook that stands now."""

    def runbook(self) -> Runbook:
        """Answer the runbook."""
        ...


@dataclass(slots=True, kw_only=True)
class Work:
    """What a step works on while it holds the lease.

    ``actor`` is the name that timeline events carry.
    """

    step: RunStep
    run: Run
    incident: Incident
    deployment: Deployment

    @property
    def actor(self) -> str:
        """Answer who acts in events: the run."""
        return f"run {self.run.pk}"

    def remember(self, **facts: Any) -> None:  # noqa: ANN401 - JSON values of the step's own
        """Commit what a repeat must know; called before the act it belongs to."""
        self.step.memory = {**self.step.memory, **facts}
        self.step.save(update_fields=["memory"])

    def report(self, progress: str) -> None:
        """Show in one line what the step is doing now."""
        self.step.progress = progress[:300]
        self.step.save(update_fields=["progress"])


class Step(Protocol):
    """One kind of step: commit the intent, observe, act only if still needed, observe, record.

    ``advance`` is short and safe to repeat: a killed worker's step is advanced again by another.
    Raises StepError where the outcome cannot be reached; anything else is our own fault.
    ``undo`` takes the effect back where a failure must not leave it standing.
    """

    title: str

    def advance(self, work: Work) -> Advance:
        """Bring the step closer to its outcome and answer where it stands."""
        ...

    def undo(self, work: Work) -> None:
        """Take the effect back after a failure; does nothing where there is none."""
        ...


class Lever(Protocol):
    """What a patch step pulls to change engines: the drill's control, or a person."""

    title: str

    def applies_to(self, deployment: Deployment) -> bool:
        """Answer whether this lever can move that deployment."""
        ...

    def pull(self, work: Work) -> str:
        """Act if still needed and answer in a sentence what was asked. Raises StepError."""
        ...


BOOKS: Registry[Book] = Registry("runbook")
STEPS: Registry[Step] = Registry("step")
LEVERS: Registry[Lever] = Registry("lever")
