"""What people type on the pages of this floor."""

from __future__ import annotations

from django import forms


class StartForm(forms.Form):
    """Which runbook to start; the service knows which there are."""

    book = forms.CharField(max_length=60)


class WordsForm(forms.Form):
    """What a person adds to an act, and the name of what it acts on where that must be typed."""

    reason = forms.CharField(max_length=500, required=False, strip=True)
    confirm = forms.CharField(max_length=200, required=False, strip=True)

    def words(self) -> str:
        """Answer what was typed; the service refuses where it needs more."""
        return str(self.cleaned_data["reason"]) if self.is_valid() else ""

    def confirms(self, name: str) -> bool:
        """Answer whether the person typed this name."""
        return self.is_valid() and self.cleaned_data["confirm"] == name
