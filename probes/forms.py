"""What people type on the pages of this floor."""

from __future__ import annotations

from datetime import timedelta

from django import forms

from probes.canary.contract import PLANS
from probes.tokens import MOST_DAYS


class ReasonForm(forms.Form):
    """Why a person wants something that has a price."""

    reason = forms.CharField(max_length=500, strip=True)


class PlansForm(forms.Form):
    """Which canary plans one audit runs; none: those of the deployment."""

    plans = forms.MultipleChoiceField(
        choices=lambda: [(key, key) for key in PLANS.all()], required=False
    )


class ConfirmForm(forms.Form):
    """The name of what a dangerous act acts on, typed by the person."""

    confirm = forms.CharField(max_length=200, strip=True)

    def confirms(self, name: str) -> bool:
        """Answer whether the person typed this name."""
        return self.is_valid() and self.cleaned_data["confirm"] == name


class TokenForm(forms.Form):
    """A token that a machine is to ask with."""

    name = forms.SlugField(
        max_length=60, help_text="What asks with it, such as github-glm. Never given twice."
    )
    days = forms.IntegerField(
        label="Stands for, in days",
        min_value=1,
        max_value=MOST_DAYS,
        required=False,
        initial=90,
        help_text="Empty: until somebody revokes it.",
    )

    def lasts(self) -> timedelta | None:
        """Answer for how long the token shall stand, once the form is valid."""
        days: int | None = self.cleaned_data["days"]
        return timedelta(days=days) if days else None
