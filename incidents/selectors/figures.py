"""What a page says of an incident in figures: its moments, and the spans between them."""

from __future__ import annotations

from dataclasses import dataclass

from incidents.impact import exposure_windows
from incidents.models import Incident
from incidents.postmortem import Duration, Moments, Window, durations_of
from incidents.selectors.incidents import standing_moments
from incidents.selectors.timelines import status_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFigures:
    """Moments that stand, spans with their definitions, and when requests may have been hit."""

    moments: Moments
    durations: tuple[Duration, ...]
    windows: tuple[Window, ...]


def incident_figures(incident: Incident) -> IncidentFigures:
    """Answer the figures of an incident as it stands."""
    moments = standing_moments(incident)
    return IncidentFigures(
        moments=moments,
        durations=durations_of(moments),
        windows=exposure_windows(incident.impact_start_at, status_changes(incident)),
    )
