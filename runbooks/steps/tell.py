"""Step "tell": a person tells those concerned; the run records who was told."""

from __future__ import annotations

from runbooks.contract import STEPS, Advance, StepError, Work


@STEPS.register("tell")
class Tell:
    """Confirmed by a person; no worker can do it."""

    title = "Tell"

    def advance(self, work: Work) -> Advance:
        """Refuse: only a person's confirmation ends this step."""
        raise StepError(f"“{work.step.title}” is confirmed by a person, not by a worker")

    def undo(self, work: Work) -> None:
        """Change nothing: what was told cannot be untold."""
