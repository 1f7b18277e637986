"""Doors to API tokens: who holds one, issue one, revoke one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from common.pages import PageRequest, allow, attempt, page
from common.roles import Role, has_role, require_role
from probes.forms import TokenForm
from probes.tokens import TokenError, token_add, token_list, token_revoke


@require_GET
def api_token_list(request: PageRequest) -> HttpResponse:
    """Show every token by name and use; no text of one."""
    context = {
        "tokens": token_list(),
        "is_staff": has_role(request.user, Role.RESPONDER, Role.COMMANDER),
    }
    return page(request, "probes/api_token_list.html", context)


@sensitive_variables()
@never_cache
@require_http_methods(["GET", "POST"])
def api_token_add(request: PageRequest) -> HttpResponse:
    """Issue a token and show it in the answer to that very post, never again."""
    allow(
        lambda: require_role(request.user, Role.RESPONDER, Role.COMMANDER, to="issue an API token")
    )
    form = TokenForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        name = form.cleaned_data["name"]
        try:
            text = token_add(name=name, actor=request.user, lasts=form.lasts())
        except TokenError as fault:
            messages.error(request, f"Nothing was issued: {fault}")
        else:
            return page(request, "probes/api_token.html", {"name": name, "text": text})
    return page(request, "probes/api_token_add.html", {"form": form})


@require_POST
def api_token_revoke(request: PageRequest, name: str) -> HttpResponse:
    """End a token at once."""
    attempt(
        request,
        lambda: token_revoke(name=name, actor=request.user),
        TokenError,
        done=f"{name} is revoked: what asks with it is refused from now on.",
    )
    return redirect("api_token_list")
