"""Doors to single nodes: what retiring one means, and the act."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods

from common.pages import PageRequest, allow, attempt, page
from common.roles import Role, require_role
from fleet.models import Node
from fleet.retiring import RetireRefused, node_retire, retire_objections


@require_http_methods(["GET", "POST"])
def node_retired(request: PageRequest, name: str, node: str) -> HttpResponse:
    """Say what retiring a node does, or why it cannot be done now; then do it."""
    allow(lambda: require_role(request.user, Role.RESPONDER, Role.COMMANDER, to="retire a node"))
    row = get_object_or_404(
        Node.objects.select_related("deployment"),
        deployment__name=name,
        name=node,
        retired_at=None,
    )
    if request.method == "POST":
        if request.POST.get("confirm", "").strip() != row.name:
            messages.error(request, f"Nothing was done: type {row.name} to retire it.")
        elif attempt(
            request,
            lambda: node_retire(actor=request.user, node=row),
            RetireRefused,
            done=f"{row.name} is retired: it is no longer read. What it showed stays.",
        ):
            return redirect("deployment", name=name)
        return redirect("node_retire", name=name, node=node)
    objections = retire_objections(deployment=row.deployment, nodes=[row])
    context = {"node": row, "deployment": row.deployment, "objection": objections.get(row.name, "")}
    return page(request, "fleet/node_retire.html", context)
