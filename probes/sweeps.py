"""What the tick does for this floor: wakes workers, ends what overran, watches proofs."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings

from common.queue import after_commit
from common.tick import on_tick
from fleet.retention import readings_prune
from fleet.rotation_watch import watches_due
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
from probes.router_jobs import jobs_to_wake, late_joins_to_look_at
from probes.services import audit_stop, audits_overdue
from probes.tasks import (
    check_drift,
    check_late_join,
    check_rotation,
    conduct_audit,
    conduct_router_job,
    read_shard,
)


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
def watch_rotations() -> None:
    """Queue a look at every router from which workers were taken out."""
    for key in watches_due():
        after_commit(check_rotation, key)


@on_tick
def wake_router_jobs() -> None:
    """Queue every act at a router that nobody holds."""
    for key in jobs_to_wake():
        after_commit(conduct_router_job, key)


@on_tick
def watch_late_joins() -> None:
    """Queue a look for every node whose join was refused after its router had been told."""
    for key in late_joins_to_look_at():
        after_commit(check_late_join, key)


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


@on_tick
def prune_readings() -> None:
    """Delete some of the old readings that nobody needs."""
    readings_prune()
