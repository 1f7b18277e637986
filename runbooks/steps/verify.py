"""Step "verify": gates and independent canary rounds by pair client, out of rotation."""

from __future__ import annotations

import secrets

from incidents.contract import Status
from probes.models import Way
from runbooks.audit_wait import audit_of, require_pass, waiting_for
from runbooks.contract import STEPS, Advance, Work, again, done
from runbooks.moves import incident_bring, incident_give_up

_SEED_BITS = 62


@STEPS.register("verify")
class Verify:
    """Done when one audit of gates and every round, each with its own seed, passes."""

    title = "Verify with gates and two canary rounds"

    def advance(self, work: Work) -> Advance:
        """Queue the audit once, wait for it, and take only a pass."""
        rounds = int(work.step.settings["rounds"])
        seeds = [secrets.randbits(_SEED_BITS) for _ in range(rounds)]
        audit = audit_of(work, way=Way.PAIR, seeds=seeds)
        if progress := waiting_for(audit):
            return again(progress)
        text = f"audit {audit.pk} passed with {rounds} rounds: {require_pass(audit)}"
        incident_bring(work, Status.MITIGATED, text)
        return done(text)

    def undo(self, work: Work) -> None:
        """Take the incident back to contained, or further where its workers came back meanwhile."""
        incident_give_up(work, "verification failed")
