"""What the tick does for this floor: wakes workers, ends what overran, watches proofs."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings

from common.queue import after_commit
from common.tick import on_tick
from fleet.sweep import (
    deployments_stale,
    may_sweep_alone,
    shards_give_up,
    shards_to_wake,
    sweep_begin,
)
from probes.conduct import LIVE
from probes.drift_watch import deployments_to_watch
from probes.models import Audit
from probes.services import audit_stop, audits_overdue
from probes.tasks import check_drift, conduct_audit, read_shard


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


@on_tick
def wake_shards() -> None:
    """Give up shards that overran, and queue some that nobody holds."""
    shards_give_up()
    for key in shards_to_wake():
        after_commit(read_shard, key)


@on_tick
def sweep_stale() -> None:
    """Begin a sweep of deployments that nobody has read for a while; the next tick wakes it."""
    after = settings.SWEEP_AFTER_MINUTES
    if after and may_sweep_alone():
        stale = deployments_stale(older_than=timedelta(minutes=after))
        if stale:
            sweep_begin(actor="tick", trigger="tick", only=stale)
