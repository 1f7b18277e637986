"""Doors of the incidents floor: where an incident stands, and what people do to it."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.models import User
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from common.pages import PageRequest, allow, attempt, page
from common.roles import require_staff_of_incident
from fleet.models import Deployment
from incidents.contract import IncidentError, IncidentUnknown, Status
from incidents.forms import MoveForm, NoteForm, ReasonForm
from incidents.models import Evidence, Incident
from incidents.pages import answers_of, incident_page
from incidents.selectors.incidents import incident_get, incident_open_of, incident_visible_to
from incidents.services import (
    Exported,
    command_take,
    evidence_unseal,
    finding_declare,
    incident_close,
    incident_declare,
    incident_move_by_hand,
    note_add,
    postmortem_export,
    row_unseal,
)
from probes.models import Audit, CanaryRow, Finding
from probes.selectors import findings_ranked

#: How many incidents the list shows.
_LISTED = 100


def _allow_staff(person: User, to: str) -> None:
    """Let responders and commanders through. Raises PermissionDenied."""
    allow(lambda: require_staff_of_incident(person, to=to))


def _incident(request: PageRequest, reference: str) -> Incident:
    """Answer the incident that an address names. Raises PermissionDenied, Http404."""
    _allow_staff(request.user, "see an incident")
    try:
        return incident_get(reference, request.user)
    except IncidentUnknown as error:
        raise Http404(str(error)) from error


def _done(
    request: PageRequest, row: Incident, act: Callable[[], object], *, says: str
) -> HttpResponse:
    """Run one service on an incident and show where it then stands."""
    attempt(request, act, IncidentError, done=says)
    return redirect("incident", reference=row.reference)


@require_GET
def incident_list(request: PageRequest) -> HttpResponse:
    """Show the newest incidents."""
    _allow_staff(request.user, "see incidents")
    incidents = list(incident_visible_to(request.user)[:_LISTED])
    return page(request, "incidents/incident_list.html", {"incidents": incidents, "limit": _LISTED})


@require_GET
@never_cache
def incident(request: PageRequest, reference: str) -> HttpResponse:
    """Show where one incident stands."""
    row = _incident(request, reference)
    context = {"page": incident_page(row, request.user), "incident": row, "note_form": NoteForm()}
    return page(
        request,
        "incidents/incident.html",
        context,
        fragments=("standing", "timeline"),
        is_over=not row.is_open,
    )


@require_POST
def incident_declared(request: PageRequest, reference: str) -> HttpResponse:
    """Declare an incident that is in triage."""
    row = _incident(request, reference)
    return _done(
        request,
        row,
        lambda: incident_declare(person=request.user, incident=row),
        says=f"{row.reference} is declared.",
    )


@require_POST
def finding_declared(request: PageRequest, pk: int) -> HttpResponse:
    """Declare an incident from a finding."""
    finding = get_object_or_404(Finding.objects.select_related("deployment"), pk=pk)
    declared: list[Incident] = []
    is_done = attempt(
        request,
        lambda: declared.append(finding_declare(person=request.user, finding=finding)),
        IncidentError,
    )
    if not is_done:
        return redirect("deployment", name=finding.deployment.name)
    return redirect("incident", reference=declared[0].reference)


@require_POST
def command_taken(request: PageRequest, reference: str) -> HttpResponse:
    """Make the signed-in commander hold the incident."""
    row = _incident(request, reference)
    return _done(
        request,
        row,
        lambda: command_take(person=request.user, incident=row),
        says=f"You command {row.reference}.",
    )


@require_POST
def note_added(request: PageRequest, reference: str) -> HttpResponse:
    """Add a person's entry to the timeline."""
    row = _incident(request, reference)
    form = NoteForm(request.POST)
    if not form.is_valid():
        context = {"page": incident_page(row, request.user), "incident": row, "note_form": form}
        return page(request, "incidents/incident.html", context)
    return _done(
        request,
        row,
        lambda: note_add(person=request.user, incident=row, **form.cleaned_data),
        says="Entry added.",
    )


@require_POST
def incident_moved(request: PageRequest, reference: str) -> HttpResponse:
    """Move an incident by hand, on a commander's word."""
    row = _incident(request, reference)
    form = MoveForm(request.POST)
    to = form.cleaned_data["to"] if form.is_valid() else row.status
    return _done(
        request,
        row,
        lambda: incident_move_by_hand(
            person=request.user, incident=row, to=Status(to), reason=form.reason_given()
        ),
        says=f"{row.reference} is {to}.",
    )


@require_POST
def incident_closed(request: PageRequest, reference: str) -> HttpResponse:
    """Close an incident with a summary."""
    row = _incident(request, reference)
    summary = ReasonForm(request.POST).reason_given()
    return _done(
        request,
        row,
        lambda: incident_close(person=request.user, incident=row, summary=summary),
        says=f"{row.reference} is closed.",
    )


@require_GET
@never_cache
def postmortem(request: PageRequest, reference: str, form: str) -> HttpResponse:
    """Hand the post-mortem out as a file."""
    row = _incident(request, reference)
    made: list[Exported] = []
    is_done = attempt(
        request,
        lambda: made.append(postmortem_export(person=request.user, incident=row, form=form)),
        IncidentError,
    )
    if not is_done:
        return redirect("incident", reference=row.reference)
    response = HttpResponse(made[0].text, content_type=f"{made[0].media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{made[0].file_name}"'
    return response


@require_POST
@never_cache
def evidence_opened(request: PageRequest, reference: str, number: int) -> HttpResponse:
    """Open a sealed document for this one answer, on the record."""
    row = _incident(request, reference)
    kept = get_object_or_404(Evidence, incident=row, number=number)
    reason = ReasonForm(request.POST).reason_given()
    title = f"E-{kept.number:04d}: {kept.title}"
    return _opened(
        request,
        row,
        title,
        lambda: evidence_unseal(person=request.user, evidence=kept, reason=reason),
    )


@require_POST
@never_cache
def row_opened(request: PageRequest, reference: str, pk: str) -> HttpResponse:
    """Open the sealed answer to one canary request for this one answer, on the record."""
    row = _incident(request, reference)
    asked = get_object_or_404(CanaryRow.objects.select_related("audit"), pk=pk)
    reason = ReasonForm(request.POST).reason_given()
    title = (
        f"Answer to request {asked.position} of round {asked.round_number}, audit {asked.audit_id}"
    )
    return _opened(
        request,
        row,
        title,
        lambda: row_unseal(person=request.user, row=asked, incident=row, reason=reason),
    )


def _opened(
    request: PageRequest, row: Incident, title: str, unseal: Callable[[], str]
) -> HttpResponse:
    """Run an unseal service and show what it opened; nothing of it is kept by the page."""
    opened: list[str] = []
    if not attempt(request, lambda: opened.append(unseal()), IncidentError):
        return redirect("incident", reference=row.reference)
    context = {"incident": row, "title": title, "document": opened[0]}
    return page(request, "incidents/opened.html", context)


@require_GET
def deployment_incident(request: PageRequest, name: str) -> HttpResponse:
    """Show the open incident of a deployment, or from which finding one can be declared."""
    _allow_staff(request.user, "see incidents")
    deployment = get_object_or_404(Deployment, name=name)
    context = {
        "deployment": deployment,
        "incident": incident_open_of(deployment),
        "findings": [one.finding for one in findings_ranked(deployment)],
    }
    return page(
        request,
        "incidents/deployment_incident.html",
        context,
        fragments=("deployment_incident",),
    )


@require_GET
def audit_answers(request: PageRequest, pk: int) -> HttpResponse:
    """Show which answers of an audit are sealed; they open only for an incident."""
    _allow_staff(request.user, "see sealed answers")
    audit = get_object_or_404(Audit.objects.select_related("deployment"), pk=pk)
    incident = incident_visible_to(request.user).filter(deployment=audit.deployment).first()
    context = {"audit": audit, "incident": incident, "answers": answers_of(audit.pk)}
    return page(request, "incidents/audit_answers.html", context, fragments=("audit_answers",))
