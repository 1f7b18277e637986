"""What every page's view shares: whole page or fragment, and a service's refusal in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django_htmx.middleware import HtmxDetails

from common.roles import NotAllowed

#: Status by which a fragment tells htmx to stop asking.
STOP_POLLING = 286


class PageRequest(HttpRequest):
    """A request of a signed-in person, as the middleware leaves it."""

    htmx: HtmxDetails
    user: User


def page(
    request: PageRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    fragments: Sequence[str] = (),
    is_over: bool = False,
) -> HttpResponse:
    """Answer a whole page, or the fragment that htmx asks for by its element's id.

    A fragment of something that is over stops the polling.
    """
    wanted = request.htmx.target if request.htmx and not request.htmx.boosted else None
    if wanted not in fragments:
        return render(request, template, dict(context))
    status = STOP_POLLING if is_over else 200
    return render(request, f"{template}#{wanted}", {**context, "is_fragment": True}, status=status)


def allow(check: Callable[[], None]) -> None:
    """Run a role check of a page; a refusal becomes the 403 page. Raises PermissionDenied."""
    try:
        check()
    except NotAllowed as error:
        raise PermissionDenied(str(error)) from error


def attempt(
    request: HttpRequest, act: Callable[[], object], *refusals: type[Exception], done: str = ""
) -> bool:
    """Run one service; a refusal becomes a message, a missing role the 403 page.

    Answers whether it was done. Raises PermissionDenied.
    """
    try:
        act()
    except NotAllowed as error:
        raise PermissionDenied(str(error)) from error
    except refusals as error:
        messages.error(request, str(error))
        return False
    if done:
        messages.success(request, done)
    return True
