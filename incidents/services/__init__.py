"""Writes to incidents: everything that changes one goes through here, one transaction each."""

from __future__ import annotations

from incidents.services.evidence import evidence_keep, evidence_unseal, row_unseal
from incidents.services.exporting import Exported, postmortem_export, postmortem_export_from_shell
from incidents.services.moving import (
    incident_close,
    incident_move,
    incident_move_by_hand,
    incident_take_back,
)
from incidents.services.opening import (
    command_take,
    finding_declare,
    incident_declare,
    incident_join,
    incident_open,
)
from incidents.services.pull import (
    audits_pull,
    containments_recheck,
    findings_pull,
    pull_now,
    restores_recheck,
)
from incidents.services.timeline import event_record, note_add

__all__ = [
    "Exported",
    "audits_pull",
    "command_take",
    "containments_recheck",
    "event_record",
    "evidence_keep",
    "evidence_unseal",
    "finding_declare",
    "findings_pull",
    "incident_close",
    "incident_declare",
    "incident_join",
    "incident_move",
    "incident_move_by_hand",
    "incident_open",
    "incident_take_back",
    "note_add",
    "postmortem_export",
    "postmortem_export_from_shell",
    "pull_now",
    "restores_recheck",
    "row_unseal",
]
