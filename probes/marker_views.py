"""The door to the registry of markers: a text goes in, its origins come out."""

from __future__ import annotations

from django import forms
from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from common.pages import PageRequest, allow, page
from common.roles import Role, require_role
from common.sealing import SealBroken
from probes.marker_registry import LARGEST_TEXT, TooLong, trace_as


class TraceForm(forms.Form):
    """A text from anywhere."""

    text = forms.CharField(
        label="Text",
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false", "autocomplete": "off"}),
        help_text=(
            "What a customer reported, an answer, a log. It is looked through and not stored; the "
            f"trail keeps its digest. {LARGEST_TEXT // 1024**2} MiB at most."
        ),
        strip=False,
    )


@sensitive_variables()
@never_cache
@require_http_methods(["GET", "POST"])
def marker_trace(request: PageRequest) -> HttpResponse:
    """Show a form, and what the text in it holds of our markers."""
    allow(lambda: require_role(request.user, Role.RESPONDER, Role.COMMANDER, to="trace a text"))
    form = TraceForm(request.POST or None)
    context: dict[str, object] = {"form": form, "is_traced": False}
    if request.method == "POST" and form.is_valid():
        try:
            context["origins"] = trace_as(person=request.user, text=form.cleaned_data["text"])
            context["is_traced"] = True
        except TooLong as fault:
            form.add_error("text", str(fault))
        except SealBroken:
            form.add_error(
                None,
                "A kept marker key cannot be unsealed, so nothing was looked for: restore the "
                "sealing key file that stood when the audits ran.",
            )
    return page(request, "probes/marker_trace.html", context)
