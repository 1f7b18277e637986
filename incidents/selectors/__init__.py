"""Reads of the incidents floor, for pages, exports and the floor above."""

from __future__ import annotations

from incidents.selectors.canary import canary_lines
from incidents.selectors.figures import IncidentFigures, incident_figures
from incidents.selectors.incidents import (
    findings_awaiting,
    incident_find,
    incident_get,
    incident_open_of,
    incident_visible_to,
    standing_moments,
)
from incidents.selectors.postmortems import postmortem_build
from incidents.selectors.timelines import chain_holds_hash, chain_state, chain_verify, timeline

__all__ = [
    "IncidentFigures",
    "canary_lines",
    "chain_holds_hash",
    "chain_state",
    "chain_verify",
    "findings_awaiting",
    "incident_figures",
    "incident_find",
    "incident_get",
    "incident_open_of",
    "incident_visible_to",
    "postmortem_build",
    "standing_moments",
    "timeline",
]
