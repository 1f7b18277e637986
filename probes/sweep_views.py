"""Doors to sweeps: begin one, see how far it is."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from common.pages import PageRequest, attempt, page
from common.queue import after_commit
from common.roles import Role, has_role
from fleet.sweep import SweepError, shards_to_wake, sweep_latest, sweep_request
from probes.tasks import read_shard


@require_GET
def sweep(request: PageRequest) -> HttpResponse:
    """Show the newest sweep: while it runs, how far it is; then what it found."""
    progress = sweep_latest()
    context = {
        "progress": progress,
        "is_staff": has_role(request.user, Role.RESPONDER, Role.COMMANDER),
    }
    is_over = progress is None or progress.is_over
    return page(request, "probes/sweep.html", context, fragments=("sweep",), is_over=is_over)


@require_POST
def sweep_start(request: PageRequest) -> HttpResponse:
    """Begin to read every deployment and wake workers for it."""
    if attempt(request, lambda: sweep_request(person=request.user), SweepError):
        for key in shards_to_wake():
            after_commit(read_shard, key)
    return redirect("sweep")
