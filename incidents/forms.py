"""What people type on the pages of this floor."""

from __future__ import annotations

from datetime import UTC

from django import forms

from incidents.contract import Status


class ReasonForm(forms.Form):
    """Why a person wants something that goes on the record."""

    reason = forms.CharField(max_length=500, strip=True)

    def reason_given(self) -> str:
        """Answer the reason, or nothing where none was typed; the service then refuses."""
        return str(self.cleaned_data["reason"]) if self.is_valid() else ""


class NoteForm(forms.Form):
    """A person's entry in a timeline; a correction names the entry that it supersedes."""

    text = forms.CharField(label="What happened", max_length=10_000, widget=forms.Textarea)
    occurred_at = forms.DateTimeField(label="When, in UTC", required=False)
    supersedes = forms.IntegerField(label="Corrects entry", required=False, min_value=1)

    def clean_occurred_at(self) -> object:
        """Answer the moment as UTC, whatever the browser sent."""
        moment = self.cleaned_data["occurred_at"]
        return moment.replace(tzinfo=UTC) if moment is not None else None


class MoveForm(ReasonForm):
    """A move by hand, on a commander's word."""

    to = forms.ChoiceField(choices=[(status.value, status.value) for status in Status])
