"""Step "patch": the engines are redeployed so that every required gate passes."""

from __future__ import annotations

from common.verdicts import Verdict
from fleet.services import readings_take
from probes.judging import judge_deployment
from runbooks.contract import LEVERS, STEPS, Advance, Lever, StepError, Work, again, done


@STEPS.register("patch")
class Patch:
    """Done when fresh readings of the running engines pass every required gate."""

    title = "Fixed engine, pools that cover the context"

    def advance(self, work: Work) -> Advance:
        """Pull the lever where that is still needed, then judge the running engines."""
        look = readings_take(deployment=work.deployment)
        judgement = judge_deployment(work.deployment, look.readings)
        if judgement.verdict is Verdict.PASS:
            return done(self._after(work, [reading.version for reading in look.readings]))
        if "before" not in work.step.memory:
            work.remember(before=sorted({str(reading.version) for reading in look.readings}))
        asked = self._lever(work).pull(work)
        reasons = [
            check.reason
            for check in judgement.checks
            if check.required and check.verdict is not Verdict.PASS
        ]
        return again(f"{asked}; not yet: {reasons[0] if reasons else 'no check left'}")

    def _lever(self, work: Work) -> Lever:
        for lever in LEVERS.all().values():
            if lever.applies_to(work.deployment):
                return lever
        raise StepError(f"no lever can redeploy {work.deployment}")

    def _after(self, work: Work, versions: list[str | None]) -> str:
        after = ", ".join(sorted({str(version) for version in versions}))
        before = ", ".join(work.step.memory.get("before", []))
        change = f"version {before} → {after}; " if before else ""
        return f"{change}every required gate passes on {len(versions)} of {len(versions)} nodes"

    def undo(self, work: Work) -> None:
        """Leave the engines as they are: they are out of rotation."""
