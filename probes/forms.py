"""What people type on the pages of this floor."""

from __future__ import annotations

from django import forms


class ReasonForm(forms.Form):
    """Why a person wants something that has a price."""

    reason = forms.CharField(max_length=500, strip=True)


class ConfirmForm(forms.Form):
    """The name of what a dangerous act acts on, typed by the person."""

    confirm = forms.CharField(max_length=200, strip=True)

    def confirms(self, name: str) -> bool:
        """Answer whether the person typed this name."""
        return self.is_valid() and self.cleaned_data["confirm"] == name
