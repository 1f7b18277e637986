"""Celery doors of this floor: ids in, one call each."""

from __future__ import annotations

from celery import shared_task

from fleet.rotation_watch import rotation_check
from probes.conduct import audit_conduct
from probes.drift_watch import drift_check
from probes.router_jobs import job_conduct, late_join_check
from probes.sweep_conduct import sweep_conduct


@shared_task(name="probes.conduct_audit")
def conduct_audit(audit_pk: int) -> None:
    """Conduct an audit unless another worker does."""
    audit_conduct(audit_pk=audit_pk)


@shared_task(name="probes.check_drift")
def check_drift(deployment_pk: int) -> None:
    """Re-read a proved deployment."""
    drift_check(deployment_pk=deployment_pk)


@shared_task(name="probes.read_shard")
def read_shard(shard_pk: int) -> None:
    """Read a shard of a sweep unless another worker does."""
    sweep_conduct(shard_pk=shard_pk)


@shared_task(name="probes.check_rotation")
def check_rotation(watch_pk: int) -> None:
    """Look whether what was taken out of a router stays out."""
    rotation_check(watch_pk=watch_pk)


@shared_task(name="probes.conduct_router_job")
def conduct_router_job(job_pk: int) -> None:
    """Do what a person asked for at a router unless another worker does."""
    job_conduct(job_pk=job_pk)


@shared_task(name="probes.check_late_join")
def check_late_join(job_pk: int) -> None:
    """Look whether a node entered its router after its join was refused."""
    late_join_check(job_pk=job_pk)
