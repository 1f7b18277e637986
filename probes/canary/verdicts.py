"""How an oracle makes its check out of what it saw and what it doubts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from common.verdicts import Verdict, worst
from probes.canary.contract import Evidence
from probes.canary.controls import Doubt
from probes.canary.rounds import Part, Row
from probes.judgement import Check, Figure, Kind


def check_of(  # noqa: PLR0913 - keyword-only from the fourth on
    evidence: Evidence,
    oracle: str,
    verdict: Verdict,
    reason: str,
    *,
    kind: Kind,
    row: Row | None = None,
    **more: Figure,
) -> Check:
    """Answer the check of one oracle; ``row`` is the request that decides it."""
    sent = [one.length for one in evidence.rows if one.is_sent and one.part is Part.ASK]
    figures: dict[str, Figure] = {
        "length": max(sent, default=None) if row is None else row.length,
        "first_refused": evidence.scene.first_refused,
    }
    if row is not None:
        figures |= {"status": row.status, "prompt_tokens": row.prompt_tokens}
    return Check(
        check=f"{evidence.plan}.{oracle}",
        target=evidence.scene.target,
        verdict=verdict,
        kind=kind,
        reason=reason,
        figures=figures | more,
    )


def settled(
    evidence: Evidence,
    oracle: str,
    doubts: Iterable[Doubt],
    reason: str,
    *,
    kind: Kind,
    **more: Figure,
) -> Check:
    """Answer a pass for this reason, or the worst of the doubts that forbid it."""
    found = list(doubts)
    verdict = worst(doubt.verdict for doubt in found) if found else Verdict.PASS
    told = "; ".join(dict.fromkeys(doubt.reason for doubt in found)) or reason
    check = check_of(evidence, oracle, verdict, told, kind=kind)
    return replace(check, figures={**check.figures, **more})


def doubted(check: Check, doubts: Iterable[Doubt]) -> Check:
    """Answer a check as it is, or a pass as no pass where something forbids it."""
    found = list(doubts)
    if check.verdict is not Verdict.PASS or not found:
        return check
    reasons = "; ".join(dict.fromkeys(doubt.reason for doubt in found))
    verdict = worst(doubt.verdict for doubt in found)
    return replace(check, verdict=verdict, reason=f"{reasons}; otherwise: {check.reason}")


def told_or_advice(check: Check) -> Check:
    """Answer a check that has a say only where it tells something: not every model can be asked."""
    is_told = check.verdict in {Verdict.PASS, Verdict.FAIL}
    return check.with_required(required=is_told)


def checks_unsent(
    *, plan: str, kinds: Mapping[str, Kind], target: str, reason: str
) -> tuple[Check, ...]:
    """Answer the checks of a round of which nothing was sent, by oracle."""
    return tuple(
        Check(
            check=f"{plan}.{oracle}",
            target=target,
            verdict=Verdict.NOT_EXERCISED,
            kind=kind,
            reason=reason,
        )
        for oracle, kind in kinds.items()
    )
