"""What may be said of a deployment now: its last verdict in the light of its proof."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from common.verdicts import Verdict
from probes.models import Audit, Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One verdict that is true now, and why in one line.

    ``verdict`` is empty before the first audit. ``proved_at`` and ``proof_ends_at`` are those of
    the newest proof, standing or not; ``is_proved`` says whether it stands.
    """

    verdict: str
    why: str
    judged_at: datetime | None = None
    proved_at: datetime | None = None
    proof_ends_at: datetime | None = None
    is_proved: bool = False


def standing_of(audit: Audit | None, proof: Proof | None) -> Standing:
    """Answer what stands, from the newest audit that is over and the newest proof.

    A pass without a standing proof is no pass any more: what was shown is not known to hold.
    """
    if audit is None:
        return Standing(
            verdict="", why="No audit is over yet: nothing is known of this deployment."
        )
    is_proved = proof is not None and proof.is_standing
    verdict, why = audit.verdict, audit.headline or audit.problem
    if verdict == Verdict.PASS and not is_proved:
        verdict, why = Verdict.INCONCLUSIVE, _why_unproved(proof)
    return Standing(
        verdict=verdict,
        why=why,
        judged_at=audit.ended_at,
        proved_at=proof.granted_at if proof else None,
        proof_ends_at=proof.expires_at if proof else None,
        is_proved=is_proved,
    )


def _why_unproved(proof: Proof | None) -> str:
    if proof is None:
        return "The last audit passed but left no proof: run a full audit, canary included."
    if proof.voided_at is not None:
        return f"It passed, but its proof is void: {proof.void_reason}"
    return "It passed, but its proof ran out: run an audit."
