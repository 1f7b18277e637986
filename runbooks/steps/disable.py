"""Step "disable": out of the router, confirmed gone there, drained by the engines' own word."""

from __future__ import annotations

from fleet.contract import FleetError
from fleet.taking_out import deployment_drain, rotation_leave, rotation_list, rotation_look
from incidents.contract import Status
from runbooks.contract import STEPS, Advance, StepError, Work, again, done
from runbooks.moves import incident_bring


@STEPS.register("disable")
class Disable:
    """Done when the router lists none of the workers and every queue of every node is empty."""

    title = "Take the deployment out of rotation"

    def advance(self, work: Work) -> Advance:
        """Remove what is still listed, then wait for the engines to run dry."""
        try:
            # Told before the act: putting some workers back takes more than an order.
            notes = rotation_look(deployment=work.deployment).notes
            work.report("; ".join(["removing the workers from the router", *notes]))
            workers = rotation_leave(deployment=work.deployment, actor=work.actor)
            left = rotation_list(deployment=work.deployment)
        except FleetError as error:
            raise StepError(str(error)) from error
        if left:
            listed = ", ".join(worker.url for worker in left)
            raise StepError(f"the router still lists {listed}: remove them there, then try again")
        drain = deployment_drain(deployment=work.deployment)
        if not drain.is_over:
            return again(f"out of the router; waiting for the engines: {drain.text}")
        text = f"{len(workers)} workers out, confirmed by the router; {drain.text}"
        incident_bring(work, Status.CONTAINED, text)
        return done(text)

    def undo(self, work: Work) -> None:
        """Leave out what is out: putting a leaking pair back is never a way to clean up."""
