"""Fields that forms of this floor share: addresses under the operator's policy, and keys."""

from __future__ import annotations

from typing import Any, Final

from django import forms

from fleet.contract import AddressRefused
from fleet.models import Deployment
from fleet.plan_offers import plans_offered
from fleet.selectors import outbound_policy
from fleet.validation import LONGEST_ADDRESS

#: How the address of a router's metrics looks; they mostly stand on a port of their own.
METRICS_SHAPE: Final = "http://host:29000/metrics"


def key_input() -> forms.PasswordInput:
    """Answer the widget of a key: what was typed is never sent back."""
    return forms.PasswordInput(
        render_value=False, attrs={"autocomplete": "off", "spellcheck": "false"}
    )


class AddressField(forms.CharField):
    """An address that a client could connect to and the operator's policy does not refuse."""

    def __init__(self, *, shape: str = "http://host:port", **options: Any) -> None:  # noqa: ANN401 - options of CharField
        super().__init__(max_length=LONGEST_ADDRESS, **options)
        self.widget.attrs["inputmode"] = "url"
        self.widget.attrs["placeholder"] = shape

    def clean(self, value: str | None) -> str:
        """Answer the address without a closing slash; http where no scheme was typed."""
        url = str(super().clean(value)).rstrip("/")
        if not url:
            return ""
        url = url if "://" in url else f"http://{url}"
        try:
            outbound_policy().check_url(url)
        except AddressRefused as refusal:
            raise forms.ValidationError(str(refusal)) from None
        return url


class PlansField(forms.MultipleChoiceField):
    """Canary plans, each with its title and with what it needs or costs."""

    def __init__(self, deployment: Deployment | None = None) -> None:
        super().__init__(
            label="Canary plans of its audits",
            required=False,
            widget=forms.CheckboxSelectMultiple,
            choices=lambda: [(one.key, one.label) for one in plans_offered(deployment)],
            help_text=(
                "None: the boundary alone. Each plan adds its rounds, and their cost, to every "
                "audit that sends any."
            ),
        )
