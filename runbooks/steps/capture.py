"""Step "capture": keeps what the engines say now, before containment destroys it."""

from __future__ import annotations

import asyncio

from django.db import transaction

from fleet.captures import Capture, dump_capture
from fleet.selectors import deployment_access
from fleet.services import Look, look_at, readings_store
from incidents.contract import Source
from incidents.services import evidence_keep
from runbooks.contract import STEPS, Advance, Work, done


@STEPS.register("capture")
class CaptureEvidence:
    """Done when the sealed capture is stored; a silent node is recorded in it, not waited for."""

    title = "Capture evidence"

    def advance(self, work: Work) -> Advance:
        """Read every node and keep the answers, once."""
        if "evidence" not in work.step.memory:
            work.report("reading every node")
            access = deployment_access(work.deployment)
            self._keep(work, asyncio.run(look_at(access, tries_without_key=True)))
        return done(work.step.memory["text"])

    @transaction.atomic
    def _keep(self, work: Work, look: Look) -> None:
        """Store evidence and the memory of it together, so that a repeat keeps nothing twice."""
        readings_store(deployment=work.deployment, readings=look.readings)
        silent = [reading for reading in look.readings if not reading.is_read]
        capture = Capture(headroom=work.deployment.headroom, nodes=look.captures)
        text = f"{len(look.readings) - len(silent)} of {len(look.readings)} nodes read"
        if silent:
            text += "; " + "; ".join(f"{one.node}: {one.problem}" for one in silent)
        evidence = evidence_keep(
            incident=work.incident,
            title=f"Capture before containment: {text}",
            document=dump_capture(capture),
            source=Source.RUN,
            actor=work.actor,
        )
        work.remember(evidence=str(evidence.pk), text=f"{text}, kept as E-{evidence.number:04d}")

    def undo(self, work: Work) -> None:
        """Keep what was captured."""
