"""What the tick does for this floor: wakes workers, ends what overran, watches proofs."""

from __future__ import annotations

from common.queue import after_commit
from common.tick import on_tick
from probes.conduct import LIVE
from probes.drift_watch import deployments_to_watch
from probes.models import Audit
from probes.services import audit_stop, audits_overdue
from probes.tasks import check_drift, conduct_audit


@on_tick
def wake_audits() -> None:
    """Queue every audit that nobody holds."""
    for audit in Audit.objects.free().filter(state__in=LIVE):
        after_commit(conduct_audit, audit.pk)


@on_tick
def end_overdue_audits() -> None:
    """End audits that overran, with the reason."""
    for audit in audits_overdue():
        audit_stop(audit=audit, problem="not finished in time; nothing is proved by it")


@on_tick
def watch_proofs() -> None:
    """Queue a look at every proved deployment whose last reading is too old."""
    for deployment in deployments_to_watch():
        after_commit(check_drift, deployment.pk)
