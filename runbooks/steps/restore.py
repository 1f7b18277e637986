"""Step "restore": back into the router, proved through the router, or out again by itself."""

from __future__ import annotations

import secrets

from fleet.contract import FleetError
from fleet.taking_out import (
    return_needs_a_hand,
    rotation_leave,
    rotation_list,
    rotation_return,
)
from incidents.contract import Status
from probes.models import Way
from runbooks.audit_wait import audit_of, require_pass, waiting_for
from runbooks.contract import STEPS, Advance, StepError, Work, again, done
from runbooks.moves import incident_bring, incident_fall_back

_SEED_BITS = 62


@STEPS.register("restore")
class Restore:
    """Done when the router lists every worker healthy and an audit through it passes."""

    title = "Restore"

    def advance(self, work: Work) -> Advance:
        """Put back what is out, then audit as a client would."""
        if not work.step.approvals.filter(attempt=work.step.tries).exists():
            raise StepError("nobody but the starter of the run has approved this")
        if "audit" not in work.step.memory:
            work.report("putting the workers back")
            if waits := self._put_back(work):
                return again(waits)
        audit = audit_of(work, way=Way.ROUTER, seeds=[secrets.randbits(_SEED_BITS)])
        if progress := waiting_for(audit):
            return again(f"back in the router; {progress}")
        text = f"audit {audit.pk} through the router passed: {require_pass(audit)}"
        incident_bring(work, Status.RESTORED, text)
        return done(text)

    def _put_back(self, work: Work) -> str:
        """Answer what a person has to do before they are back; empty once the router lists them."""
        try:
            rotation_return(deployment=work.deployment)
            listed = rotation_list(deployment=work.deployment)
        except FleetError as error:
            if self._takes_a_hand(work):
                return str(error)
            raise StepError(str(error)) from error
        if not listed:
            raise StepError("the router lists no worker although all were put back")
        return ""

    def _takes_a_hand(self, work: Work) -> bool:
        """Answer whether this router takes workers only by a restart, told once and remembered.

        While it restarts it cannot be asked. Failing would take the workers out again as soon as
        its command line has brought them back.
        """
        try:
            by_hand = work.step.memory.get("by_hand") or return_needs_a_hand(
                deployment=work.deployment
            )
        except FleetError:
            return False
        if by_hand:
            work.remember(by_hand=True)
        return bool(by_hand)

    def undo(self, work: Work) -> None:
        """Take everything out again, and the incident back to contained."""
        try:
            rotation_leave(deployment=work.deployment, actor=work.actor)
            left = rotation_list(deployment=work.deployment)
        except FleetError as error:
            raise StepError(str(error)) from error
        if left:
            raise StepError("the router still lists workers")
        incident_fall_back(work, "the check after restore failed; taken out of rotation again")
