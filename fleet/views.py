"""Doors of the fleet floor: forms for deployments, nodes, keys and grants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.forms import Form
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from common.pages import PageRequest, allow, attempt, page
from common.roles import Role, has_role, require_role
from fleet.attestable import ATTESTABLE
from fleet.attesting import attestation_add, attestation_withdraw
from fleet.contract import RouterError
from fleet.discovery import Found
from fleet.forms import AttestationForm, DeploymentForm, GrantForm, KeysForm, NodeForm, RouterForm
from fleet.importing import Imported, fleet_import_router, router_look
from fleet.models import Attestation, Deployment
from fleet.pages import attestation_lines, tenant_names, terms_of
from fleet.services import (
    DeploymentTerms,
    credentials_set,
    deployment_add,
    deployment_change,
    node_add,
)

_either = require_http_methods(["GET", "POST"])


def _allow_change(person: User) -> None:
    """Let those through who may change the fleet. Raises PermissionDenied."""
    allow(lambda: require_role(person, Role.RESPONDER, Role.COMMANDER, to="change the fleet"))


def _form_page(
    request: PageRequest,
    form: Form,
    *,
    title: str,
    button: str,
    deployment: Deployment | None = None,
) -> HttpResponse:
    context = {"form": form, "title": title, "button": button, "deployment": deployment}
    return page(request, "fleet/form.html", context)


def _saved(request: PageRequest, form: Form, save: Callable[[], object], done: str) -> bool:
    """Answer whether a posted form was valid and its service took it."""
    if request.method != "POST" or not form.is_valid():
        return False
    return attempt(request, save, ValidationError, done=done)


@_either
def deployment_added(request: PageRequest) -> HttpResponse:
    """Add a deployment by form."""
    _allow_change(request.user)
    form = DeploymentForm(request.POST or None)
    if _saved(
        request,
        form,
        lambda: deployment_add(actor=request.user, terms=form.terms()),
        "Deployment added. Name its nodes next.",
    ):
        return redirect("deployment", name=form.cleaned_data["name"])
    return _form_page(request, form, title="Add deployment", button="Add deployment")


@sensitive_post_parameters()
@_either
def router_imported(request: PageRequest) -> HttpResponse:
    """Show what a router lists, or make a deployment of it: two buttons of one form."""
    _allow_change(request.user)
    form = RouterForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return _router_page(request, form)
    wanted = form.wanted()
    if "look" in request.POST:
        seen: list[Found] = []
        attempt(request, lambda: seen.append(router_look(order=wanted.order)), RouterError)
        return _router_page(request, form, found=seen[0] if seen else None)
    made: list[Imported] = []
    if not attempt(
        request,
        lambda: made.append(fleet_import_router(actor=request.user, wanted=wanted)),
        RouterError,
        ValidationError,
    ):
        return _router_page(request, form)
    found = made[0].found
    messages.success(request, f"Deployment added from {found.kind}: {found.counts}.")
    for problem in found.problems:
        messages.warning(request, f"From the router: {problem}.")
    return redirect("deployment", name=wanted.name)


def _router_page(
    request: PageRequest, form: RouterForm, *, found: Found | None = None
) -> HttpResponse:
    return page(request, "fleet/router.html", {"form": form, "found": found})


@_either
def deployment_changed(request: PageRequest, name: str) -> HttpResponse:
    """Change what is said of a deployment."""
    _allow_change(request.user)
    deployment = get_object_or_404(Deployment, name=name)
    form = DeploymentForm(request.POST or None, initial=terms_of(deployment))
    form.tell_costs(deployment)
    if _saved(
        request,
        form,
        lambda: deployment_change(person=request.user, deployment=deployment, terms=form.terms()),
        "Saved.",
    ):
        return redirect("deployment", name=form.cleaned_data["name"])
    return _form_page(request, form, title=f"Edit {name}", button="Save", deployment=deployment)


@_either
def node_added(request: PageRequest, name: str) -> HttpResponse:
    """Add a node to a deployment by form."""
    _allow_change(request.user)
    deployment = get_object_or_404(Deployment, name=name)
    form = NodeForm(request.POST or None, deployment=deployment)
    if _saved(
        request,
        form,
        lambda: node_add(actor=request.user, deployment=deployment, terms=form.terms()),
        "Node added. It is read with the next audit.",
    ):
        return redirect("deployment", name=name)
    return _form_page(
        request, form, title=f"Add node to {name}", button="Add node", deployment=deployment
    )


@sensitive_post_parameters()
@_either
def keys_set(request: PageRequest, name: str) -> HttpResponse:
    """Seal keys of a deployment; none is ever shown."""
    _allow_change(request.user)
    deployment = get_object_or_404(Deployment, name=name)
    form = KeysForm(request.POST or None, initial=tenant_names(deployment))
    if _saved(
        request,
        form,
        lambda: credentials_set(actor=request.user, deployment=deployment, keys=form.keys()),
        "Keys sealed.",
    ):
        return redirect("deployment", name=name)
    return _form_page(
        request, form, title=f"Set keys of {name}", button="Seal keys", deployment=deployment
    )


@_either
def grant_change(request: PageRequest, name: str) -> HttpResponse:
    """Change what a boundary round of a deployment may cost."""
    _allow_change(request.user)
    deployment = get_object_or_404(Deployment, name=name)
    form = GrantForm(request.POST or None, initial={"granted_tokens": deployment.granted_tokens})
    if _saved(
        request,
        form,
        lambda: deployment_change(
            person=request.user,
            deployment=deployment,
            terms=replace(
                DeploymentTerms(**terms_of(deployment)),  # type: ignore[arg-type]
                granted_tokens=form.cleaned_data["granted_tokens"],
            ),
        ),
        "Grant changed.",
    ):
        return redirect("deployment", name=name)
    return _form_page(
        request,
        form,
        title=f"Boundary grant of {name}",
        button="Change grant",
        deployment=deployment,
    )


@require_GET
def attestation_list(request: PageRequest, name: str) -> HttpResponse:
    """Show what people vouch for of a deployment, and where one can do so."""
    deployment = get_object_or_404(Deployment, name=name)
    context = {
        "deployment": deployment,
        "attestations": attestation_lines(deployment),
        "is_staff": has_role(request.user, Role.RESPONDER, Role.COMMANDER),
    }
    return page(request, "fleet/attestations.html", context, fragments=("attestations",))


@_either
def attestation_added(request: PageRequest, name: str) -> HttpResponse:
    """Vouch for a setting that the engine does not show."""
    _allow_change(request.user)
    deployment = get_object_or_404(Deployment, name=name)
    form = AttestationForm(request.POST or None, deployment=deployment)
    if _saved(
        request,
        form,
        lambda: attestation_add(person=request.user, deployment=deployment, terms=form.terms()),
        "Attested. The next audit rests on it where it must, and says so.",
    ):
        return redirect("deployment", name=name)
    context = {"form": form, "deployment": deployment, "known": ATTESTABLE.items()}
    return page(request, "fleet/attestation_form.html", context)


@require_POST
def attestation_withdrawn(request: PageRequest, name: str, pk: int) -> HttpResponse:
    """Take back what was vouched for."""
    attestation = get_object_or_404(Attestation, pk=pk, deployment__name=name)
    attempt(
        request,
        lambda: attestation_withdraw(person=request.user, attestation=attestation),
        done="Withdrawn. What rested on it is judged anew with the next audit.",
    )
    return redirect("deployment", name=name)
