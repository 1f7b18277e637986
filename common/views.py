"""Doors of the common floor: sign-in, sign-out and the state of the parts."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from common.health import parts


class SignIn(LoginView):
    """The sign-in page; a signed-in person goes on to the overview."""

    template_name = "common/sign_in.html"
    redirect_authenticated_user = True


class SignOut(LogoutView):
    """Ends the session; by POST only, as Django demands."""


@login_not_required
@require_GET
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """Answer the state of each part as JSON; 503 when one is down."""
    found = parts()
    is_up = all(part.is_up for part in found)
    document = {
        "status": "ok" if is_up else "down",
        "parts": {
            part.name: {"state": part.state} | ({} if part.is_up else {"why": part.why})
            for part in found
        },
    }
    return JsonResponse(document, status=200 if is_up else 503)
