"""Doors of the fleet floor: forms for deployments, nodes, keys and grants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.forms import Form
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from common.pages import PageRequest, allow, attempt, page
from common.roles import Role, require_role
from fleet.forms import DeploymentForm, GrantForm, KeysForm, NodeForm
from fleet.models import Deployment
from fleet.pages import tenant_names, terms_of
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


@_either
def deployment_changed(request: PageRequest, name: str) -> HttpResponse:
    """Change what is said of a deployment."""
    _allow_change(request.user)
    deployment = get_object_or_404(Deployment, name=name)
    form = DeploymentForm(request.POST or None, initial=terms_of(deployment))
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
