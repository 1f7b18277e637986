"""Read model of the audit page: checks in order of weight, canary rows as people read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from common.verdicts import WORST_FIRST, Verdict
from probes.models import Audit, AuditCheck, CanaryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignMarks:
    """Markers of one other request in an answer: whose, and from which of its pages."""

    tenant: str
    request: str
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLine:
    """One canary request: what was sent, what came back, and any marker that was not its own."""

    row: CanaryRow
    document: Mapping[str, Any]
    foreign: tuple[ForeignMarks, ...] = ()

    @property
    def outcome(self) -> str:
        """Answer the outcome's key."""
        return str(self.document.get("outcome", ""))

    @property
    def is_unread(self) -> bool:
        """Answer whether nothing of its own prompt came back in an answer."""
        return self.document.get("echo") == "missing"

    @property
    def is_wrong(self) -> bool:
        """Answer whether the engine did what it must not do with this request."""
        served_a_refusal = self.document.get("duty") == "refusal" and self.outcome in {
            "answered",
            "cut_short",
        }
        return bool(self.foreign) or served_a_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLines:
    """The rows of one round; fillers of the same kind are counted, not listed."""

    number: int
    asked: tuple[RowLine, ...]
    fillers: tuple[RowLine, ...]

    @property
    def filled_tokens(self) -> int:
        """Answer how many tokens the fillers sent."""
        return sum(int(line.document.get("length") or 0) for line in self.fillers)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """All that the audit page shows."""

    audit: Audit
    checks: tuple[AuditCheck, ...]
    rounds: tuple[RoundLines, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Answer how many requests are done."""
        return int(self.audit.progress.get("done") or 0)

    @property
    def total(self) -> int:
        """Answer how many there are in all; 0 while that is not known."""
        return int(self.audit.progress.get("total") or 0)

    @property
    def label(self) -> str:
        """Answer what is under way."""
        return str(self.audit.progress.get("label") or self.audit.state)

    @property
    def is_leaking(self) -> bool:
        """Answer whether a marker of another request was found."""
        return any(line.foreign for one in self.rounds for line in (*one.asked, *one.fillers))


def audit_page(audit: Audit) -> AuditPage:
    """Answer all that the page of one audit shows, in two queries."""
    checks = sorted(audit.checks.all(), key=_weight)
    lines = [_row_line(row) for row in audit.rows.defer("sealed_answer")]
    numbers = sorted({line.row.round_number for line in lines})
    return AuditPage(
        audit=audit,
        checks=tuple(checks),
        rounds=tuple(_round(number, lines) for number in numbers),
        counts={
            str(verdict): sum(check.verdict == verdict for check in checks)
            for verdict in WORST_FIRST
            if any(check.verdict == verdict for check in checks)
        },
    )


def _weight(check: AuditCheck) -> tuple[bool, int, int]:
    """Answer what comes first: required ones, the worst of them, then as they were judged."""
    return (not check.required, WORST_FIRST.index(Verdict(check.verdict)), check.pk)


def _row_line(row: CanaryRow) -> RowLine:
    return RowLine(row=row, document=row.document, foreign=_foreign_marks(row.document))


def _foreign_marks(document: Mapping[str, Any]) -> tuple[ForeignMarks, ...]:
    """Answer the markers that are not the request's own; one whose owner is unsaid counts."""
    pages: dict[tuple[str, str], set[int]] = defaultdict(set)
    for hit in document.get("markers") or []:
        if hit.get("is_own") is not True:
            owner = (str(hit.get("tenant")), str(hit.get("request")))
            pages[owner].update([hit["page"]] if isinstance(hit.get("page"), int) else [])
    return tuple(
        ForeignMarks(tenant=tenant, request=request, pages=tuple(sorted(seen)))
        for (tenant, request), seen in pages.items()
    )


def _round(number: int, lines: list[RowLine]) -> RoundLines:
    mine = [line for line in lines if line.row.round_number == number]
    return RoundLines(
        number=number,
        asked=tuple(line for line in mine if line.document.get("part") != "fill" or line.is_wrong),
        fillers=tuple(
            line for line in mine if line.document.get("part") == "fill" and not line.is_wrong
        ),
    )
