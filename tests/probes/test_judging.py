"""Audits see pages that a storage still holds from before, by what nodes once were."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from common.clock import now
from common.verdicts import Verdict
from fleet import services
from fleet.contract import Outcome
from fleet.models import Attestation, Deployment, Node
from fleet.reading import Reading
from fleet.selectors import deployment_access
from fleet.services import Look, readings_store
from fleet.sweeping import DeploymentLook, NodeLook
from probes import conduct
from probes.conduct import audit_conduct
from probes.judging import stale_caches
from probes.models import Way
from probes.services import audit_queue
from probes.sweep_news import Swept, swept_settle
from tests.deployments import Register
from tests.incidents.builders import make_deployment, make_node
from tests.probes.builders import prefill

pytestmark = pytest.mark.django_db
FILE = {"hicache_storage_backend": "file", "spill_paths": "/nvme/kv"}
BF16 = {**prefill().layout, "dtype": "bfloat16", "kv_cache_dtype": "bfloat16"}
FP8 = {**BF16, "kv_cache_dtype": "fp8_e4m3"}


@pytest.fixture
def node() -> Node:
    return make_node(make_deployment("glm"), "p0")


def read(
    node: Node,
    layout: dict[str, Any],
    *,
    days_ago: float,
    start: str,
    flags: dict[str, str] | None = None,
) -> Reading:
    """Store what a node said some days ago."""
    reading = prefill(
        node=node.name,
        layout=layout,
        flags=FILE if flags is None else flags,
        started=start,
        taken_at=now() - timedelta(days=days_ago),
    )
    readings_store(deployment=node.deployment, readings=[reading])
    return reading


def word_of(node: Node, *, days_ago: float) -> None:
    """Attest some days ago that the storage was cleared."""
    Attestation.objects.create(
        deployment=node.deployment,
        key="storage_cleared",
        value="true",
        reason="rm -r",
        by="ann",
        given_at=now() - timedelta(days=days_ago),
        until=now() + timedelta(days=9),
    )


def verdicts(node: Node, reading: Reading) -> list[Verdict]:
    attested = deployment_access(node.deployment).nodes[0].attested
    reading = replace(reading, attested={one.key: one for one in attested})
    checks = stale_caches(node.deployment, [reading])
    assert all(check.required and check.target == node.name for check in checks)
    return [check.verdict for check in checks]


def test_nothing_is_said_of_a_node_that_never_was_another(node: Node) -> None:
    read(node, BF16, days_ago=3, start="1")
    assert verdicts(node, read(node, BF16, days_ago=0, start="2")) == []


def test_a_redeploy_over_the_same_storage_fails(node: Node) -> None:
    read(node, BF16, days_ago=3, start="1")
    assert verdicts(node, read(node, FP8, days_ago=0, start="2")) == [Verdict.FAIL]


def test_another_restart_makes_nobody_forget(node: Node) -> None:
    read(node, BF16, days_ago=9, start="1")
    for start in range(2, 6):
        read(node, FP8, days_ago=9 - start, start=str(start))
    assert verdicts(node, read(node, FP8, days_ago=0, start="9")) == [Verdict.FAIL]


def test_going_back_does_not_help(node: Node) -> None:
    read(node, BF16, days_ago=9, start="1")
    read(node, FP8, days_ago=5, start="2")
    assert verdicts(node, read(node, BF16, days_ago=0, start="3")) == [Verdict.FAIL]


def test_no_storage_is_no_fault_and_a_hidden_one_is_unknown(node: Node) -> None:
    none = {"hicache_storage_backend": "null"}
    read(node, BF16, days_ago=3, start="1", flags=none)
    assert verdicts(node, read(node, FP8, days_ago=0, start="2", flags=none)) == []
    other = make_node(make_deployment("other"), "p0")
    read(other, BF16, days_ago=3, start="1", flags={})
    unknown = read(other, FP8, days_ago=0, start="2", flags={})
    assert verdicts(other, unknown) == [Verdict.INCONCLUSIVE]


def test_a_word_that_it_was_cleared_covers_only_what_was_before_it(node: Node) -> None:
    read(node, BF16, days_ago=9, start="1")
    word_of(node, days_ago=5)
    after = read(node, FP8, days_ago=4, start="2")
    assert verdicts(node, after) == [Verdict.PASS]
    later = read(node, BF16, days_ago=0, start="3")
    assert verdicts(node, later) == [Verdict.FAIL]
    Attestation.objects.update(withdrawn_at=now())
    assert verdicts(node, after) == [Verdict.FAIL]


def test_an_audit_blocks_on_it_and_a_later_pass_resolves_it(
    register: Register, responder: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, _ = register("--scenario", "healthy")
    seen: dict[str, Any] = {"layout": BF16}

    def looked_at(*, deployment: Deployment) -> Look:
        look = asyncio.run(services.look_at(deployment_access(deployment)))
        readings = [replace(one, flags={**one.flags, **FILE}, **seen) for one in look.readings]
        services.readings_store(deployment=deployment, readings=readings)
        return replace(look, readings=tuple(readings))

    monkeypatch.setattr(conduct, "readings_take", looked_at)

    def audit() -> dict[str, str]:
        row = audit_queue(
            deployment=deployment, actor=responder.username, trigger="person", way=Way.NONE
        )
        audit_conduct(audit_pk=row.pk)
        row.refresh_from_db()
        found = row.checks.filter(check_name="persistent_cache")
        return {"audit": row.verdict, **{one.target: one.verdict for one in found}}

    assert audit() == {"audit": "pass"}
    seen["layout"] = FP8
    failed = {"audit": "fail", "prefill-1": "fail", "decode-1": "fail"}
    assert audit() == failed
    assert deployment.findings.filter(check_name="persistent_cache", resolved_at=None).count() == 2
    word_of(deployment.nodes.get(name="prefill-1"), days_ago=0)
    assert audit() == {"audit": "pass", "prefill-1": "pass", "decode-1": "pass"}
    assert not deployment.findings.filter(check_name="persistent_cache", resolved_at=None).exists()


def swept(node: Node, reading: Reading) -> Verdict:
    look = DeploymentLook(
        shard=1,
        deployment=node.deployment.pk,
        access=deployment_access(node.deployment),
        looks=(NodeLook(reading=reading, outcome=Outcome.READ),),
    )
    one = Swept(look=look, deployment=node.deployment, node_keys={node.name: node.pk})
    (verdict,) = swept_settle([one])
    return verdict


def test_the_audit_that_a_sweep_keeps_says_it_once(node: Node) -> None:
    read(node, BF16, days_ago=3, start="one")
    after = prefill(node=node.name, layout=FP8, flags=FILE, started="two", taken_at=now())
    swept(node, after)
    kept = node.deployment.audits.get()
    assert kept.checks.get(check_name="persistent_cache").verdict == "fail"
    swept(node, replace(after, taken_at=now()))
    assert node.deployment.audits.count() == 1
