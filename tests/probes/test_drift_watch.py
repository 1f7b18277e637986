"""Drift of a running drill: the proof is void, gates run once more, the history tells of it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from fleet.models import Deployment, NodeReading
from probes.conduct import audit_conduct
from probes.drift_watch import deployments_to_watch, drift_check
from probes.models import Audit, AuditState, Way
from probes.selectors import changes_newest, proof_standing
from probes.services import audit_request
from tests.deployments import Register, await_serving, redeploy

pytestmark = pytest.mark.django_db


def prove(deployment: Deployment, person: User) -> None:
    audit = audit_request(person=person, deployment=deployment)
    assert audit_conduct(audit_pk=audit.pk)
    assert proof_standing(deployment) is not None


def wait_unseen(deployment: Deployment) -> None:
    """Wait until the nodes serve again, without keeping the readings that were needed for it."""
    known = list(NodeReading.objects.values_list("pk", flat=True))
    await_serving(deployment)
    NodeReading.objects.exclude(pk__in=known).delete()


def test_a_restart_with_the_same_flags_voids_the_proof_and_is_gated_again_once(
    register: Register, responder: User
) -> None:
    deployment, drill = register("--scenario", "healthy")
    prove(deployment, responder)
    redeploy(drill, "prefill-1")
    wait_unseen(deployment)
    assert "prefill-1" in drift_check(deployment_pk=deployment.pk)
    assert proof_standing(deployment) is None
    regate = deployment.audits.get(trigger="drift")
    assert (regate.way, regate.state, regate.seeds) == (Way.NONE, AuditState.QUEUED, [])
    assert drift_check(deployment_pk=deployment.pk) == ""
    assert audit_conduct(audit_pk=regate.pk)
    assert drift_check(deployment_pk=deployment.pk) == ""
    assert deployments_to_watch() == []
    assert Audit.objects.filter(trigger="drift").count() == 1
    regate.refresh_from_db()
    # Gates alone pass, but what was proved by rounds before is not proved of the new process.
    assert regate.verdict == "pass"
    assert proof_standing(deployment) is None
    (line,) = changes_newest(deployment)
    assert (line.node, line.changes) == ("prefill-1", ())
    assert line.restart


def test_another_pool_is_told_with_both_figures(register: Register, responder: User) -> None:
    deployment, drill = register("--scenario", "healthy")
    prove(deployment, responder)
    (before,) = deployment.nodes.get(name="decode-1").readings.all()[:1]
    redeploy(drill, "decode-1", pool=20_544)
    wait_unseen(deployment)
    assert drift_check(deployment_pk=deployment.pk)
    (line,) = changes_newest(deployment)
    assert line.node == "decode-1"
    shown = {change.name: (change.before, change.after) for change in line.changes}
    assert shown["rank 0.token_capacity"] == (f"{before.document['pool']:,}", "20,544")
    # The drill sets its pool as an operator would, by the flag.
    assert {name for name in shown if name.startswith("flags.")} <= {"flags.max_total_tokens"}
    assert line.restart


def test_an_audit_under_way_is_the_regate(register: Register, responder: User) -> None:
    deployment, drill = register("--scenario", "healthy")
    prove(deployment, responder)
    audit_request(person=responder, deployment=deployment)
    redeploy(drill, "decode-1", pool=20_544)
    wait_unseen(deployment)
    assert drift_check(deployment_pk=deployment.pk)
    assert not Audit.objects.filter(trigger="drift").exists()


def test_a_silent_node_voids_nothing_and_changes_nothing(
    register: Register, responder: User
) -> None:
    deployment, _ = register("--scenario", "healthy")
    prove(deployment, responder)
    deployment.nodes.filter(name="decode-1").update(url="http://127.0.0.1:9")
    assert drift_check(deployment_pk=deployment.pk) == ""
    assert proof_standing(deployment) is not None
    assert changes_newest(deployment) == ()
    assert NodeReading.objects.exclude(problem="").filter(node__name="decode-1").exists()
