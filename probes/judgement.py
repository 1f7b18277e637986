"""What a gate, a canary or a whole audit says: the values and the published JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict

from common.verdicts import Verdict, worst


class Kind(StrEnum):
    """Kind of a finding."""

    LEAK = "leak"
    CORRUPTION = "corruption"
    OVER_LIMIT_SERVED = "over_limit_served"
    TIMING = "timing"
    AVAILABILITY = "availability"
    CONFIG = "config"
    SECRET = "secret"  # noqa: S105 - a word, not a password


#: Kinds that open a security incident when a canary finds them (design, "What opens an incident").
SECURITY_KINDS = frozenset({Kind.LEAK, Kind.CORRUPTION, Kind.OVER_LIMIT_SERVED})

Figure = int | float | str | bool | list[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One verdict about one target, with the figures that decide it and why in one sentence."""

    check: str
    target: str
    verdict: Verdict
    kind: Kind
    reason: str
    required: bool = True
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def as_advisory(self) -> Check:
        """Answer the same check, shown and stored but without a say in the whole verdict."""
        return self.with_required(required=False)

    def with_required(self, *, required: bool) -> Check:
        """Answer the same check with or without a say in the whole verdict."""
        if self.required is required:
            return self
        # A look at a fleet makes dozens of these a deployment, and replace() takes twice as long.
        return Check(
            check=self.check,
            target=self.target,
            verdict=self.verdict,
            kind=self.kind,
            reason=self.reason,
            required=required,
            figures=self.figures,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A check that does not apply, and why."""

    check: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way to close a failing check, and what it costs.

    ``flags`` are start arguments and environment of each node that must change; empty where no flag
    does it. ``predicted_band`` is what is left of the band that the check told of; null is none.
    Unit of ``full_length_requests_*``: requests of the whole advertised context that the smallest
    pool holds at once, under the context that is advertised before and after.
    """

    check: str
    target: str
    action: str
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    predicted_band: list[int] | None = None
    full_length_requests_before: float | None = None
    full_length_requests_after: float | None = None


class RemedyDocument(TypedDict):
    """A remedy as published beside a judgement."""

    check: str
    target: str
    action: str
    flags: dict[str, list[str]]
    predicted_band: list[int] | None
    full_length_requests_before: float | None
    full_length_requests_after: float | None


class CheckDocument(TypedDict):
    """A check as published (design, "A judgement")."""

    check: str
    target: str
    verdict: str
    required: bool
    kind: str
    reason: str
    figures: dict[str, Figure]


class JudgementDocument(TypedDict):
    """A judgement as published (design, "A judgement")."""

    verdict: str
    checks: list[CheckDocument]
    skipped: list[dict[str, str]]
    remedies: list[RemedyDocument]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All checks of one look at a deployment."""

    checks: tuple[Check, ...]
    skipped: tuple[Skipped, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Answer the worst of the required checks; inconclusive where none is left."""
        return worst(check.verdict for check in self.checks if check.required)

    def document(self) -> JudgementDocument:
        """Answer the published JSON object."""
        return {
            "verdict": str(self.verdict),
            "checks": [
                {
                    "check": check.check,
                    "target": check.target,
                    "verdict": str(check.verdict),
                    "required": check.required,
                    "kind": str(check.kind),
                    "reason": check.reason,
                    "figures": dict(check.figures),
                }
                for check in self.checks
            ],
            "skipped": [{"check": one.check, "reason": one.reason} for one in self.skipped],
            "remedies": [remedy_document(one) for one in self.remedies],
        }


def remedy_document(remedy: Remedy) -> RemedyDocument:
    """Answer the published JSON of a remedy."""
    return {
        "check": remedy.check,
        "target": remedy.target,
        "action": remedy.action,
        "flags": {node: list(flags) for node, flags in remedy.flags.items()},
        "predicted_band": remedy.predicted_band,
        "full_length_requests_before": remedy.full_length_requests_before,
        "full_length_requests_after": remedy.full_length_requests_after,
    }
