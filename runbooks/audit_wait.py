"""What verify and restore share: one audit, queued once, waited for, and its verdict."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from common.verdicts import Verdict
from probes.models import Audit, Way
from probes.services import audit_queue
from runbooks.contract import StepError, Work


def audit_of(work: Work, *, way: Way, seeds: Sequence[int]) -> Audit:
    """Answer this step's audit; queues it the first time, together with the memory of it."""
    if "audit" not in work.step.memory:
        with transaction.atomic():
            audit = audit_queue(
                deployment=work.deployment,
                actor=work.actor,
                trigger="run",
                way=way,
                seeds=seeds,
            )
            work.remember(audit=audit.pk)
    return Audit.objects.get(pk=work.step.memory["audit"])


def waiting_for(audit: Audit) -> str:
    """Answer in one line how far an audit is, or nothing once it is over."""
    if audit.is_over:
        return ""
    done, total = audit.progress.get("done", 0), audit.progress.get("total", 0)
    label = audit.progress.get("label") or audit.state
    return f"audit {audit.pk}: {label}" + (f" ({done} of {total} requests)" if total else "")


def require_pass(audit: Audit) -> str:
    """Answer the headline of a passed audit. Raises StepError for every other verdict."""
    if audit.verdict != Verdict.PASS:
        verdict = audit.verdict.replace("_", " ") or audit.state
        raise StepError(f"audit {audit.pk}: {verdict}. {audit.headline or audit.problem}")
    return audit.headline
