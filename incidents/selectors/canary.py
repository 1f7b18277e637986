"""Reads canary rows as lines that anybody may see: figures and our own markers, never an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from incidents.postmortem import CanaryLine, MarkerLine
from probes.models import CanaryRow


def canary_lines(audit_pks: Iterable[int]) -> tuple[CanaryLine, ...]:
    """Answer the rows of audits in the order in which they were sent; answers are not even read."""
    rows = (
        CanaryRow.objects.filter(audit_id__in=list(audit_pks))
        .defer("sealed_answer")
        .order_by("audit_id", "round_number", "position")
    )
    return tuple(_line_of(row) for row in rows)


def _line_of(row: CanaryRow) -> CanaryLine:
    document: Mapping[str, object] = row.document if isinstance(row.document, dict) else {}
    return CanaryLine(
        audit=row.audit_id,
        round=row.round_number,
        position=row.position,
        part=_text(document.get("part")),
        tenant=_text(document.get("tenant")),
        length=_number(document.get("length")),
        asked_tokens=_number(document.get("max_new_tokens")),
        status=_number(document.get("status")),
        prompt_tokens=_number(document.get("prompt_tokens")),
        outcome=_text(document.get("outcome")),
        markers=_foreign_markers(document.get("markers")),
    )


def _foreign_markers(markers: object) -> tuple[MarkerLine, ...]:
    """Answer the markers that are not the request's own; one whose owner is unsaid counts."""
    if not isinstance(markers, list):
        return ()
    return tuple(
        MarkerLine(
            tenant=_text(one.get("tenant")),
            request=_text(one.get("request")),
            page=_number(one.get("page")),
        )
        for one in markers
        if isinstance(one, dict) and one.get("is_own") is not True
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
