"""Doors to acts at a router: ask for one, and see how far the newest is."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_GET, require_POST

from common.pages import PageRequest, attempt, page
from common.queue import after_commit
from fleet.models import Deployment, Node
from probes.job_rows import RouterJob
from probes.joining import JoinRefused
from probes.router_jobs import JobRefused, job_latest, join_request, take_out_request
from probes.tasks import conduct_router_job


@require_GET
def router_job(request: PageRequest, name: str) -> HttpResponse:
    """Show the newest act at a deployment's router: how far it is, then what came of it."""
    row = get_object_or_404(Deployment, name=name)
    job = job_latest(row)
    is_over = job is None or job.is_over
    context = {"deployment": row, "job": job}
    return page(
        request, "probes/router_job.html", context, fragments=("router_job",), is_over=is_over
    )


@require_POST
def node_joined(request: PageRequest, name: str, node: str) -> HttpResponse:
    """Ask that a node is let into its router, if the gates pass on what all nodes say then."""
    row = get_object_or_404(
        Node.objects.select_related("deployment"), deployment__name=name, name=node
    )
    return _asked(request, name, lambda: join_request(person=request.user, node=row))


@require_POST
def taken_out_again(request: PageRequest, name: str) -> HttpResponse:
    """Ask that what must stay out is taken out again."""
    row = get_object_or_404(Deployment, name=name)
    return _asked(request, name, lambda: take_out_request(person=request.user, deployment=row))


def _asked(request: PageRequest, name: str, queue: Callable[[], RouterJob]) -> HttpResponse:
    """Run a service that queues a job, wake a worker, and show the router."""
    queued: list[RouterJob] = []
    if attempt(request, lambda: queued.append(queue()), JoinRefused, JobRefused):
        after_commit(conduct_router_job, queued[0].pk)
    return redirect("router", name=name)
