"""Read models of the overview and the run pages: what waits for a person, what happens now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.urls import reverse

from common.health import Part
from common.roles import Role, has_role
from fleet.models import Deployment
from incidents.contract import Status
from incidents.models import OPEN_STATUSES, Incident
from incidents.selectors.incidents import incident_visible_to
from probes.models import Audit, AuditState
from probes.pages import DeploymentLine
from runbooks.contract import BOOKS
from runbooks.models import Run, RunState, RunStep, StepState

#: Statuses in which the page offers a run; the service has the last word.
RUNNABLE = {Status.DECLARED, Status.CONTAINED, Status.MITIGATED}
_LIVE = {StepState.READY, StepState.RUNNING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One thing that waits for a person, and the one button that leads to it."""

    what: str
    says: str
    href: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """An open incident on the overview, with the run that is on it."""

    incident: Incident
    reason: str
    run: Run | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage:
    """All that the overview shows."""

    banners: tuple[Banner, ...]
    lines: tuple[DeploymentLine, ...]
    waiting: tuple[Waiting, ...]
    parts: tuple[Part, ...]

    @property
    def is_any_down(self) -> bool:
        """Answer whether a part is down."""
        return any(not part.is_up for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What stands beside the navigation; None where the person may not know."""

    deployments: int
    audits: int
    incidents: int | None
    runs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """One step of a run as its page shows it. ``standing`` is done, now, wrong or empty."""

    step: RunStep
    approvals: tuple[str, ...]
    is_now: bool

    @property
    def what(self) -> str:
        """Answer what the step will do and cost, as frozen at the run's start."""
        return str(self.step.settings.get("what") or "")

    @property
    def if_it_fails(self) -> str:
        """Answer what then stays as it is."""
        return str(self.step.settings.get("if_it_fails") or "")

    @property
    def is_manual(self) -> bool:
        """Answer whether a person does it and says so."""
        return bool(self.step.settings.get("is_manual"))

    @property
    def is_live(self) -> bool:
        """Answer whether a worker is at it, or about to be."""
        return self.step.state in _LIVE

    @property
    def standing(self) -> str:
        """Answer how the step shows in the line of stages."""
        if self.step.state == StepState.DONE:
            return "done"
        if self.step.state == StepState.FAILED:
            return "wrong"
        return "now" if self.is_now else ""

    @property
    def word(self) -> str:
        """Answer the state as a word that says for whom it waits."""
        if self.step.state != StepState.WAITING:
            return self.step.state
        if self.step.needs_approval:
            return "needs a second person"
        return "to be confirmed" if self.is_manual else "to be started"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """All that the run page shows to one person."""

    run: Run
    lines: tuple[StepLine, ...]
    now: StepLine | None
    next: StepLine | None
    is_starter: bool
    is_commander: bool

    @property
    def is_over(self) -> bool:
        """Answer whether nothing more can happen to it."""
        return self.run.state in {RunState.DONE, RunState.ABORTED}

    @property
    def poll_s(self) -> int:
        """Answer how often the page looks again, in seconds: sooner while a worker is at it."""
        return 2 if self.now and self.now.is_live else 5


def overview_page(
    person: User, *, lines: tuple[DeploymentLine, ...], parts: tuple[Part, ...]
) -> OverviewPage:
    """Answer all that the overview shows to this person."""
    incidents = list(
        incident_visible_to(person).filter(status__in=OPEN_STATUSES).prefetch_related("findings")
    )
    runs = list(
        Run.objects.filter(incident__in=incidents, state__in=[RunState.ACTIVE, RunState.FAILED])
        .select_related("incident__deployment", "started_by")
        .prefetch_related("steps")
    )
    latest = {run.incident_id: run for run in reversed(runs)}
    return OverviewPage(
        banners=tuple(_banner(one, latest.get(one.pk)) for one in incidents),
        lines=lines,
        waiting=(*_incidents(incidents, run_by=latest), *_steps(runs, person)),
        parts=parts,
    )


def _banner(incident: Incident, run: Run | None) -> Banner:
    findings = list(incident.findings.all())
    reason = next((one.reason for one in findings if one.kind == incident.kind), "")
    return Banner(incident=incident, reason=reason, run=run)


#: What a person has to do about an incident that no run can.
_ASKED = {
    Status.TRIAGE: "is in triage: declare it, or close it as a false alarm",
    Status.DECLARED: "is declared and no run is under way: start one",
    Status.RESTORED: "is restored: a commander closes it",
}


def _incidents(incidents: Sequence[Incident], *, run_by: Collection[int]) -> list[Waiting]:
    """Answer the incidents that wait for a person; a live run speaks for its own."""
    return [
        Waiting(
            what=f"{one.reference} {_ASKED[Status(one.status)]}",
            says=one.title,
            href=reverse("incident", args=[one.reference]),
            action="Review",
        )
        for one in incidents
        if Status(one.status) in _ASKED and one.pk not in run_by
    ]


def _steps(runs: Sequence[Run], person: User) -> list[Waiting]:
    return [
        _waiting_step(run, step, person)
        for run in runs
        for step in run.steps.all()
        if step.state in {StepState.WAITING, StepState.FAILED}
    ]


def _waiting_step(run: Run, step: RunStep, person: User) -> Waiting:
    href = reverse("run", args=[run.pk])
    where = f"{step.title}, {run.incident.deployment}"
    if step.state == StepState.FAILED:
        return Waiting(what=f"{where}: failed", says=step.outcome, href=href, action="Open run")
    if step.needs_approval:
        asked = f"Asked by {run.started_by}."
        says = f"{asked} You started this run, so it cannot be you." if _is(run, person) else asked
        return Waiting(
            what=f"{where}: needs a second person", says=says, href=href, action="Review"
        )
    action = "Confirm" if step.settings.get("is_manual") else "Start step"
    says = step.outcome or str(step.settings.get("what") or "")
    return Waiting(what=where, says=says, href=href, action=action)


def _is(run: Run, person: User) -> bool:
    return run.started_by_id == person.pk


def counts(person: User) -> Counts:
    """Answer what stands beside the navigation for this person."""
    is_staff = has_role(person, Role.RESPONDER, Role.COMMANDER)
    return Counts(
        deployments=Deployment.objects.count(),
        audits=Audit.objects.exclude(state__in=[AuditState.DONE, AuditState.STOPPED]).count(),
        incidents=Incident.objects.filter(status__in=OPEN_STATUSES).count() if is_staff else None,
        runs=Run.objects.filter(state=RunState.ACTIVE).count() if is_staff else None,
    )


def run_page(run: Run, person: User) -> RunPage:
    """Answer all that the page of one run shows to this person."""
    steps = list(run.steps.prefetch_related("approvals__by"))
    current = next((step for step in steps if step.state != StepState.DONE), None)
    lines = tuple(
        StepLine(
            step=step,
            approvals=tuple(str(one.by) for one in step.approvals.all()),
            is_now=step is current and run.state in {RunState.ACTIVE, RunState.FAILED},
        )
        for step in steps
    )
    now = next((line for line in lines if line.is_now), None)
    following = [line for line in lines if now and line.step.position > now.step.position]
    return RunPage(
        run=run,
        lines=lines,
        now=now,
        next=following[0] if following else None,
        is_starter=_is(run, person),
        is_commander=has_role(person, Role.COMMANDER),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BookChoice:
    """One runbook that can be started, with what its run will do."""

    key: str
    title: str
    summary: str
    steps: tuple[str, ...]


def book_choices(incident: Incident, runs: Sequence[Run]) -> tuple[BookChoice, ...]:
    """Answer the runbooks that may be started for an incident now."""
    if incident.status not in RUNNABLE or any(run.state == RunState.ACTIVE for run in runs):
        return ()
    books = [book.runbook() for book in BOOKS.all().values()]
    return tuple(
        BookChoice(
            key=book.key,
            title=book.title,
            summary=book.summary,
            steps=tuple(step.title for step in book.steps),
        )
        for book in books
    )
