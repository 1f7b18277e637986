"""Doors of the top floor: the overview, and runs with what people do to them."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_GET, require_POST

from common.health import parts
from common.pages import PageRequest, allow, attempt, page
from common.queue import after_commit
from common.registry import UnknownKey
from common.roles import require_staff_of_incident
from incidents.contract import IncidentUnknown
from incidents.models import Incident
from incidents.selectors.incidents import incident_get, incident_visible_to
from probes.pages import deployment_lines
from runbooks.contract import RunError
from runbooks.forms import StartForm, WordsForm
from runbooks.models import Run, RunStep
from runbooks.pages import book_choices, counts, overview_page, run_page
from runbooks.services import (
    run_abort,
    run_start,
    step_approve,
    step_confirm,
    step_retry,
    step_start,
)
from runbooks.tasks import advance_run

#: How many runs the list shows.
_LISTED = 100


@require_GET
def overview(request: PageRequest) -> HttpResponse:
    """Show whether anything is leaking, and what waits for a person."""
    shown = overview_page(request.user, lines=deployment_lines(), parts=parts())
    return page(request, "runbooks/overview.html", {"page": shown}, fragments=("now",))


@require_GET
def sidebar(request: PageRequest) -> HttpResponse:
    """Answer the counts beside the navigation and the state of the parts."""
    found = parts()
    context = {
        "counts": counts(request.user),
        "parts": found,
        "down": [part.name for part in found if not part.is_up],
    }
    return page(request, "runbooks/sidebar.html", context)


def _allow_staff(person: User) -> None:
    allow(lambda: require_staff_of_incident(person, to="see runs"))


def _incident(request: PageRequest, reference: str) -> Incident:
    """Answer the incident that an address names. Raises PermissionDenied, Http404."""
    _allow_staff(request.user)
    try:
        return incident_get(reference, request.user)
    except IncidentUnknown as error:
        raise Http404(str(error)) from error


def _run(request: PageRequest, pk: int) -> Run:
    """Answer a run whose incident this person may see. Raises PermissionDenied, Http404."""
    _allow_staff(request.user)
    runs = Run.objects.select_related("incident__deployment", "started_by")
    return get_object_or_404(runs, pk=pk, incident__in=incident_visible_to(request.user))


@require_GET
def run_list(request: PageRequest) -> HttpResponse:
    """Show the newest runs."""
    _allow_staff(request.user)
    runs = Run.objects.filter(incident__in=incident_visible_to(request.user)).select_related(
        "incident__deployment", "started_by"
    )
    context = {"runs": list(runs[:_LISTED]), "limit": _LISTED}
    return page(request, "runbooks/run_list.html", context)


@require_GET
def incident_runs(request: PageRequest, reference: str) -> HttpResponse:
    """Show the runs of an incident, and which can be started."""
    row = _incident(request, reference)
    runs = list(row.runs.select_related("started_by"))
    context = {"incident": row, "runs": runs, "books": book_choices(row, runs)}
    return page(request, "runbooks/incident_runs.html", context, fragments=("incident_runs",))


@require_POST
def run_started(request: PageRequest, reference: str) -> HttpResponse:
    """Start a runbook for an incident."""
    row = _incident(request, reference)
    form = StartForm(request.POST)
    book = form.cleaned_data["book"] if form.is_valid() else ""
    started: list[Run] = []
    is_done = attempt(
        request,
        lambda: started.append(run_start(person=request.user, incident=row, book=book)),
        RunError,
        UnknownKey,
    )
    if not is_done:
        return redirect("incident", reference=row.reference)
    after_commit(advance_run, started[0].pk)
    return redirect("run", pk=started[0].pk)


@require_GET
def run(request: PageRequest, pk: int) -> HttpResponse:
    """Show what happens now in a run, what is next, and what if it fails."""
    row = _run(request, pk)
    shown = run_page(row, request.user)
    return page(
        request,
        "runbooks/run.html",
        {"page": shown, "run": row},
        fragments=("steps",),
        is_over=shown.is_over,
    )


def _stepped(request: PageRequest, row: Run, act: Callable[[], object]) -> HttpResponse:
    """Run one service on a run, wake a worker, and show where the run then stands."""
    if attempt(request, act, RunError):
        after_commit(advance_run, row.pk)
    return redirect("run", pk=row.pk)


def _step(row: Run, position: int) -> RunStep:
    return get_object_or_404(RunStep, run=row, position=position)


@require_POST
def step_started(request: PageRequest, pk: int, position: int) -> HttpResponse:
    """Let a step act that waits for a person's start."""
    row = _run(request, pk)
    step = _step(row, position)
    return _stepped(request, row, lambda: step_start(person=request.user, step=step))


@require_POST
def step_approved(request: PageRequest, pk: int, position: int) -> HttpResponse:
    """Give the second person's yes."""
    row = _run(request, pk)
    step = _step(row, position)
    form = WordsForm(request.POST)
    name = row.incident.deployment.name
    if not form.confirms(name):
        messages.error(request, f"Nothing was approved: type {name} to approve “{step.title}”.")
        return redirect("run", pk=row.pk)
    return _stepped(
        request,
        row,
        lambda: step_approve(person=request.user, step=step, comment=form.words()),
    )


@require_POST
def step_confirmed(request: PageRequest, pk: int, position: int) -> HttpResponse:
    """Record that a person did a manual step."""
    row = _run(request, pk)
    step = _step(row, position)
    note = WordsForm(request.POST).words()
    return _stepped(request, row, lambda: step_confirm(person=request.user, step=step, note=note))


@require_POST
def step_retried(request: PageRequest, pk: int, position: int) -> HttpResponse:
    """Try a failed step again."""
    row = _run(request, pk)
    step = _step(row, position)
    return _stepped(request, row, lambda: step_retry(person=request.user, step=step))


@require_POST
def run_aborted(request: PageRequest, pk: int) -> HttpResponse:
    """End a run where it stands."""
    row = _run(request, pk)
    form = WordsForm(request.POST)
    name = row.incident.reference
    if not form.confirms(name):
        messages.error(request, f"Nothing was aborted: type {name} to abort the run.")
        return redirect("run", pk=row.pk)
    return _stepped(
        request, row, lambda: run_abort(person=request.user, run=row, reason=form.words())
    )
