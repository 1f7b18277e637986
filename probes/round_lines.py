"""Rows of canary rounds as people read them: whose marker, how sure, from which request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from django.db.models.fields.json import KeyTextTransform

from probes.models import Audit, CanaryRow

#: What came back, where the engine did not do its work or a person should look.
_STRANGE: Final = frozenset({"cut_short", "failed", "unauthorised", "no_answer", "not_exercised"})
_SERVED: Final = frozenset({"answered", "cut_short"})
#: A round of more requests is folded, but for those that a person should see.
_UNFOLDED: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The row whose prompt planted a marker."""

    audit: int
    round_number: int
    position: int
    row: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Markers of one other request in an answer: whose, from which of its pages, in which views.

    A suspect is made of ``pieces`` that fall short of a proof; ``net_bits`` is the heaviest of
    them. ``origin`` is None where no row on record planted it.
    """

    tenant: str
    request: str
    pages: tuple[int, ...]
    is_suspect: bool = False
    pieces: int = 0
    net_bits: float | None = None
    views: tuple[str, ...] = ()
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLine:
    """One canary request: what was sent, what came back, and any marker that was not its own."""

    row: CanaryRow
    document: Mapping[str, Any]
    marks: tuple[Marks, ...] = ()

    @property
    def foreign(self) -> tuple[Marks, ...]:
        """Answer the markers that are certainly another request's."""
        return tuple(one for one in self.marks if not one.is_suspect)

    @property
    def outcome(self) -> str:
        """Answer the outcome's key."""
        return str(self.document.get("outcome", ""))

    @property
    def wave(self) -> int:
        """Answer the number of the wave that it was sent in, 0 where it went alone."""
        return int(self.document.get("wave") or 0)

    @property
    def sent_as(self) -> tuple[str, ...]:
        """Answer in words by which route it went, and what it shares with others."""
        said = self.document
        words = (
            said.get("api"),
            said.get("streamed") and "streamed",
            said.get("script") and f"script {said['script']}",
            said.get("salt"),
            said.get("bystander") and "bystander",
        )
        return tuple(str(word) for word in words if word)

    @property
    def missing_pages(self) -> int:
        """Answer of how many pages it was asked for the code and did not say it."""
        return len(self.document.get("missing_pages") or [])

    @property
    def asked_pages(self) -> int:
        """Answer of how many pages it was asked for the code."""
        return len(self.document.get("asked_pages") or [])

    @property
    def is_unread(self) -> bool:
        """Answer whether nothing of its own prompt came back in an answer."""
        return self.document.get("echo") == "missing"

    @property
    def is_let_in(self) -> bool:
        """Answer whether it was served at a length that had to be refused."""
        return self.document.get("duty") == "refusal" and self.outcome in _SERVED

    @property
    def is_wrong(self) -> bool:
        """Answer whether the engine did what it must not do with this request."""
        return bool(self.foreign) or self.is_let_in

    @property
    def is_notable(self) -> bool:
        """Answer whether a person should see it without asking."""
        return self.is_wrong or bool(self.marks) or self.is_unread or self.outcome in _STRANGE

    @property
    def is_filler(self) -> bool:
        """Answer whether it only filled the pool, and nothing came of it."""
        said = self.document
        return said.get("part") == "fill" and not (said.get("script") or self.is_notable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Neighbours that were sent together as one wave, or each by itself (wave 0)."""

    wave: int
    lines: tuple[RowLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLines:
    """The rows of one round under its head; fillers of the same kind are told by count."""

    number: int
    head: Mapping[str, Any]
    asked: tuple[RowLine, ...]
    fillers: tuple[RowLine, ...]

    @property
    def filled_tokens(self) -> int:
        """Answer how many tokens the fillers sent."""
        return sum(int(line.document.get("length") or 0) for line in self.fillers)

    @property
    def is_folded(self) -> bool:
        """Answer whether it is too long to be read at a glance."""
        return len(self.asked) > _UNFOLDED

    @property
    def shown(self) -> tuple[Step, ...]:
        """Answer what stands open: all of a short round, of a long one what is strange in it."""
        return steps_of(line for line in self.asked if line.is_notable or not self.is_folded)

    @property
    def folded(self) -> tuple[Step, ...]:
        """Answer what opens on demand."""
        return steps_of(line for line in self.asked if self.is_folded and not line.is_notable)

    @property
    def folded_count(self) -> int:
        """Answer how many requests open on demand."""
        return sum(len(step.lines) for step in self.folded)


def steps_of(lines: Iterable[RowLine]) -> tuple[Step, ...]:
    """Answer lines in their order, by the wave that they were sent in."""
    return tuple(
        Step(wave=wave, lines=tuple(group)) for wave, group in groupby(lines, lambda one: one.wave)
    )


def row_lines(rows: Sequence[CanaryRow]) -> list[RowLine]:
    """Answer rows as people read them, each marker with its origin, in one query at most."""
    lines = [RowLine(row=row, document=row.document, marks=marks_of(row.document)) for row in rows]
    origins = _origins(rows, {mark.request for line in lines for mark in line.marks})
    return [
        replace(line, marks=tuple(_placed(mark, origins) for mark in line.marks)) for line in lines
    ]


def round_lines(audit: Audit, lines: Sequence[RowLine]) -> tuple[RoundLines, ...]:
    """Answer every round of an audit, those of which nothing was sent among them."""
    heads = {int(head["number"]): head for head in audit.rounds}
    numbers = sorted({*heads, *(line.row.round_number for line in lines)})
    return tuple(_round(number, heads.get(number, {}), lines) for number in numbers)


def marks_of(document: Mapping[str, Any]) -> tuple[Marks, ...]:
    """Answer the markers that are not the request's own, certain ones first.

    One whose owner is unsaid counts, and one of which it is unsaid that it is suspected is certain.
    """
    found: dict[tuple[bool, str, str], list[Mapping[str, Any]]] = {}
    for hit in document.get("markers") or []:
        if hit.get("is_own") is not True:
            is_suspect = hit.get("is_suspect") is True
            owner = (is_suspect, str(hit.get("tenant")), str(hit.get("request")))
            found.setdefault(owner, []).append(hit)
    return tuple(_marks(*owner, hits) for owner, hits in sorted(found.items()))


def _marks(
    is_suspect: bool,  # noqa: FBT001 - a part of the key of a group
    tenant: str,
    request: str,
    hits: Sequence[Mapping[str, Any]],
) -> Marks:
    bits = [one["net_bits"] for one in hits if isinstance(one.get("net_bits"), int | float)]
    return Marks(
        tenant=tenant,
        request=request,
        pages=tuple(sorted({one["page"] for one in hits if isinstance(one.get("page"), int)})),
        is_suspect=is_suspect,
        pieces=len(hits),
        net_bits=max(bits, default=None),
        views=tuple(sorted({str(one["view"]) for one in hits if one.get("view")})),
    )


def _origins(rows: Sequence[CanaryRow], requests: set[str]) -> dict[tuple[str, str], Origin]:
    """Answer who sent each of these requests: in the same audit, else in any before it."""
    found = _first_of((row for row in rows if row.document.get("request") in requests), {})
    missing = requests - {request for _, request in found}
    if not missing:
        return found
    named = CanaryRow.objects.alias(asked=KeyTextTransform("request", "document"))
    elsewhere = named.filter(asked__in=missing).defer("sealed_answer").order_by("-audit_id")
    return _first_of(elsewhere, found)


def _first_of(
    rows: Iterable[CanaryRow], known: Mapping[tuple[str, str], Origin]
) -> dict[tuple[str, str], Origin]:
    found = dict(known)
    for row in rows:
        owner = (str(row.document.get("tenant")), str(row.document.get("request")))
        place = Origin(
            audit=row.audit_id,
            round_number=row.round_number,
            position=row.position,
            row=str(row.pk),
        )
        found.setdefault(owner, place)
    return found


def _placed(mark: Marks, origins: Mapping[tuple[str, str], Origin]) -> Marks:
    return replace(mark, origin=origins.get((mark.tenant, mark.request)))


def _round(number: int, head: Mapping[str, Any], lines: Sequence[RowLine]) -> RoundLines:
    mine = [line for line in lines if line.row.round_number == number]
    return RoundLines(
        number=number,
        head=head,
        asked=tuple(line for line in mine if not line.is_filler),
        fillers=tuple(line for line in mine if line.is_filler),
    )
