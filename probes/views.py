"""Doors of the probes floor: deployments and their standing, audits and what they found."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_GET, require_POST

from common.pages import PageRequest, attempt, page
from common.queue import after_commit
from common.roles import Role, has_role
from fleet.models import Deployment
from fleet.taking_out import rotation_warnings
from probes.audit_page import audit_page
from probes.forms import ConfirmForm, PlansForm, ReasonForm
from probes.joining import router_view
from probes.models import Audit
from probes.pages import deployment_lines, deployment_page
from probes.plan_costs import plan_costs, usual_estimate
from probes.services import AuditError, audit_request, cordon_and_probe, exposure_accept
from probes.tasks import conduct_audit

#: How many audits the list shows.
_LISTED = 100


def _is_staff(request: PageRequest) -> bool:
    """Answer whether the page may offer acts; the services have the last word."""
    return has_role(request.user, Role.RESPONDER, Role.COMMANDER)


@require_GET
def deployment_list(request: PageRequest) -> HttpResponse:
    """Show every deployment with its standing."""
    context = {"lines": deployment_lines(), "is_staff": _is_staff(request)}
    return page(request, "probes/deployment_list.html", context)


@require_GET
def deployment(request: PageRequest, name: str) -> HttpResponse:
    """Show whether one deployment may serve, and why."""
    row = get_object_or_404(Deployment, name=name)
    costs = () if request.htmx else plan_costs(row)
    context = {
        "page": deployment_page(row),
        "deployment": row,
        "is_staff": _is_staff(request),
        "warnings": rotation_warnings(deployment=row),
        "plans": costs,
        "usual": [one.key for one in costs if one.is_usual],
        "estimate": usual_estimate(costs),
    }
    return page(request, "probes/deployment.html", context, fragments=("standing",))


@require_GET
def audit_list(request: PageRequest) -> HttpResponse:
    """Show the newest audits, of one deployment where asked."""
    audits = Audit.objects.select_related("deployment")
    name = request.GET.get("deployment", "")
    if name:
        audits = audits.filter(deployment__name=name)
    context = {"audits": list(audits[:_LISTED]), "deployment_name": name, "limit": _LISTED}
    return page(request, "probes/audit_list.html", context)


@require_GET
def audit(request: PageRequest, pk: int) -> HttpResponse:
    """Show one audit: while it runs, how far it is; then what it found."""
    row = get_object_or_404(
        Audit.objects.select_related("deployment", "acceptance__by", "proof"), pk=pk
    )
    context = {"page": audit_page(row), "audit": row, "is_staff": _is_staff(request)}
    return page(request, "probes/audit.html", context, fragments=("findings",), is_over=row.is_over)


@require_GET
def router(request: PageRequest, name: str) -> HttpResponse:
    """Show what a deployment's router lists right now, and which nodes it does not."""
    row = get_object_or_404(Deployment, name=name)
    context = {"view": router_view(row), "deployment": row, "is_staff": _is_staff(request)}
    return page(request, "probes/router.html", context, fragments=("router_brief",))


@require_POST
def audit_start(request: PageRequest, name: str) -> HttpResponse:
    """Queue an audit of a deployment, with the plans that were chosen for it."""
    row = get_object_or_404(Deployment, name=name)
    form = PlansForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"Nothing was queued. {' '.join(map(str, form.errors['plans']))}")
        return redirect("deployment", name=row.name)
    plans = form.cleaned_data["plans"]
    return _queued(
        request, row, lambda: audit_request(person=request.user, deployment=row, plans=plans)
    )


@require_POST
def exposure_accepted(request: PageRequest, name: str) -> HttpResponse:
    """Queue one round on an exposed pair on the signed-in person's word."""
    row = get_object_or_404(Deployment, name=name)
    form = ReasonForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    return _queued(
        request,
        row,
        lambda: exposure_accept(person=request.user, deployment=row, reason=reason),
    )


@require_POST
def cordon(request: PageRequest, name: str) -> HttpResponse:
    """Take a deployment out of its router and probe the pairs directly."""
    row = get_object_or_404(Deployment, name=name)
    if not ConfirmForm(request.POST).confirms(row.name):
        messages.error(request, f"Nothing was done: type {row.name} to cordon it.")
        return redirect("deployment", name=row.name)
    return _queued(request, row, lambda: cordon_and_probe(person=request.user, deployment=row))


def _queued(request: PageRequest, row: Deployment, queue: Callable[[], Audit]) -> HttpResponse:
    """Run a service that queues an audit, wake a worker, and show the audit."""
    queued: list[Audit] = []
    if not attempt(request, lambda: queued.append(queue()), AuditError):
        return redirect("deployment", name=row.name)
    after_commit(conduct_audit, queued[0].pk)
    return redirect("audit", pk=queued[0].pk)
