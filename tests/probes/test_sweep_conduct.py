"""Sweeps of running drills: read, judged, counted; an audit only where there is news."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Thread

import pytest
from django.db import close_old_connections
from django.test import override_settings

from common.clock import now
from common.leases import LEASE_LASTS
from common.verdicts import Verdict
from fleet.models import Deployment, Node, NodeReading, SweepShard
from fleet.shards import shards_of
from fleet.sweep import SweepProgress, sweep_begin, sweep_progress
from probes.conduct import audit_conduct
from probes.models import Audit, Way
from probes.selectors import proof_standing
from probes.services import audit_queue
from probes.sweep_conduct import sweep_conduct
from probes.sweep_news import Swept, swept_settle
from tests.deployments import Register, await_serving, redeploy

pytestmark = pytest.mark.django_db


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Answer a port that takes connections and never says a word."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen()
        yield hole.getsockname()[1]


def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def sweep(only: list[int] | None = None) -> SweepProgress:
    begun = sweep_begin(actor="test", trigger="test", only=only)
    keys = list(begun.shards.values_list("pk", flat=True))
    assert sweep_conduct(shard_pk=keys[0]) == len(keys)
    begun.refresh_from_db()
    return sweep_progress(begun)


def add_unified(name: str, *urls: str) -> Deployment:
    deployment = Deployment.objects.create(name=name, model="m")
    for place, url in enumerate(urls):
        Node.objects.create(deployment=deployment, name=f"n{place}", url=url, role="unified")
    return deployment


def test_a_sweep_reads_and_judges_and_its_first_word_is_an_audit(register: Register) -> None:
    deployment, _ = register("--scenario", "september")
    progress = sweep()
    assert progress.is_over
    assert (progress.done, progress.total) == (2, 2)
    assert progress.outcomes == {"read": 2}
    assert progress.verdicts == {"fail": 1}
    assert NodeReading.objects.filter(outcome="read").count() == 2
    audit = deployment.audits.get()
    assert (audit.way, audit.trigger, audit.verdict, audit.state) == (
        Way.NONE,
        "sweep",
        "fail",
        "done",
    )
    assert audit.checks.filter(check_name="pair_exposure", verdict="fail").exists()
    # The audit rests on the sweep's own readings.
    assert set(audit.audit_readings.values_list("reading", flat=True)) == set(
        NodeReading.objects.values_list("pk", flat=True)
    )


def test_a_sweep_that_finds_what_is_known_keeps_no_audit(register: Register) -> None:
    deployment, _ = register("--scenario", "healthy")
    sweep()
    sweep()
    assert deployment.audits.count() == 1
    assert NodeReading.objects.count() == 4
    assert not NodeReading.objects.exclude(changed_from=None).exists()


def test_drift_is_gated_again_once_and_a_pass_of_gates_renews_no_proof(register: Register) -> None:
    deployment, drill = register("--scenario", "healthy")
    audit_conduct(audit_pk=audit_queue(deployment=deployment, actor="test", trigger="test").pk)
    assert proof_standing(deployment) is not None
    sweep()
    assert proof_standing(deployment) is not None
    assert deployment.audits.count() == 1
    redeploy(drill, "decode-1", pool=20544)
    # Not by a reading of ours: the sweep itself must be the one that notices.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleet.services.readings_store", lambda **_: {})
        await_serving(deployment)
    sweep()
    audit = deployment.audits.first()
    assert audit is not None
    assert (audit.trigger, audit.way) == ("drift", Way.NONE)
    proof = deployment.proofs.get()
    assert proof.voided_at is not None
    assert "decode-1" in proof.void_reason
    sweep()
    assert deployment.audits.count() == 2


def test_silence_is_told_apart_and_is_no_news(register: Register, silent_port: int) -> None:
    deployment, drill = register("--scenario", "healthy")
    sweep()
    quiet = add_unified(
        "quiet",
        f"http://127.0.0.1:{silent_port}",
        f"http://127.0.0.1:{closed_port()}",
        "http://no-such-host.invalid",
        drill.nodes[0]["url"].replace("http:", "https:"),
        "http://8.8.8.8",
    )
    with override_settings(SWEEP_TIMEOUT_S=1):
        progress = sweep()
    assert progress.outcomes == {
        "read": 2,
        "dns": 1,
        "policy": 1,
        "refused": 1,
        "timeout": 1,
        "tls": 1,
    }
    assert progress.verdicts == {"inconclusive": 1, "pass": 1}
    assert not quiet.audits.exists()
    assert deployment.audits.count() == 1
    words = dict(NodeReading.objects.exclude(problem="").values_list("outcome", "problem"))
    assert "time-out" in words["timeout"]
    assert "refused" in words["refused"]


def test_an_audit_under_way_judges_for_itself(register: Register) -> None:
    deployment, _ = register("--scenario", "september")
    audit = audit_queue(deployment=deployment, actor="test", trigger="test", way=Way.NONE)
    sweep()
    assert list(deployment.audits.all()) == [audit]


def test_what_a_killed_worker_left_is_read_by_another(register: Register) -> None:
    register("--scenario", "healthy")
    begun = sweep_begin(actor="test", trigger="test")
    shard = begun.shards.get()
    assert SweepShard.objects.live().claim(shard.pk, owner="killed")
    assert sweep_conduct(shard_pk=shard.pk) == 0
    SweepShard.objects.update(lease_until=now() - LEASE_LASTS, done_count=1, outcomes={"dns": 1})
    assert sweep_conduct(shard_pk=shard.pk) == 1
    begun.refresh_from_db()
    progress = sweep_progress(begun)
    assert progress.is_over
    assert (progress.done, progress.outcomes) == (2, {"read": 2})


def test_a_worker_that_lost_its_shard_counts_nothing(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register("--scenario", "healthy")
    begun = sweep_begin(actor="test", trigger="test")
    shard = begun.shards.get()

    def settle_and_lose(swept: Sequence[Swept]) -> list[Verdict]:
        said = swept_settle(swept)
        SweepShard.objects.update(lease_owner="another")
        return said

    monkeypatch.setattr("probes.sweep_conduct.swept_settle", settle_and_lose)
    sweep_conduct(shard_pk=shard.pk)
    shard.refresh_from_db()
    assert (shard.done_count, shard.ended_at, shard.lease_owner) == (0, None, "another")


def test_a_shard_without_a_living_deployment_ends(register: Register) -> None:
    deployment, _ = register("--scenario", "healthy")
    begun = sweep_begin(actor="test", trigger="test")
    deployment.nodes.update(retired_at=now())
    sweep_conduct(shard_pk=begun.shards.get().pk)
    begun.refresh_from_db()
    assert begun.ended_at is not None


@pytest.mark.django_db(transaction=True)
def test_two_workers_share_the_shards(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.sweep.shards_of", partial(shards_of, per_shard=2))
    deployment, drill = register("--scenario", "healthy")
    for number in range(9):
        add_unified(f"copy-{number}", *(node["url"] for node in drill.nodes))
    begun = sweep_begin(actor="test", trigger="test")
    keys = list(begun.shards.values_list("pk", flat=True))
    assert len(keys) == 10
    taken: list[int] = []

    def work(key: int) -> None:
        taken.append(sweep_conduct(shard_pk=key))
        close_old_connections()

    threads = [Thread(target=work, args=(key,)) for key in keys[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begun.refresh_from_db()
    assert sum(taken) == len(keys)
    assert sweep_progress(begun).outcomes == {"read": 20}
    assert NodeReading.objects.count() == 20
    assert deployment.audits.count() == 1
    assert Audit.objects.count() == 10
