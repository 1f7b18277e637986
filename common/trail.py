"""Writes the audit trail of what people do."""

from __future__ import annotations

from common.models import AuditTrail


def record(*, actor: str, action: str, subject: str, **details: str | int | bool | None) -> None:
    """Append one entry; details hold ids and reasons, never keys, prompts or answers."""
    AuditTrail.objects.create(actor=actor, action=action, subject=subject, details=details)
