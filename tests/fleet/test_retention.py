"""Old readings go; what a proof, an audit, a change or an exposure rests on stays."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytest_django import Settings

from common.clock import now
from fleet import retention
from fleet.models import Deployment, Node, NodeReading
from fleet.retention import EVERY, readings_prune
from incidents.selectors.impact import impact_estimate
from probes.models import AuditReading
from probes.selectors import changes_newest
from tests.incidents.builders import make_audit, make_deployment, make_node, make_proof

pytestmark = pytest.mark.django_db
#: One reading a minute, long ago: what each node was then; None where it could not be read.
STATES = st.lists(
    st.tuples(st.sampled_from(["p0", "d0"]), st.sampled_from(["a", "a", "a", "b", None])),
    max_size=30,
)
#: The last look at d0 before p0 changed bounds the exposure, and lies in the middle of its own run.
BOUND_BY_ANOTHER = [
    *(("d0", "a"), ("p0", "a")),
    *(("d0", "a"), ("d0", "a"), ("p0", "a"), ("p0", "a"), ("p0", "b"), ("d0", "a"), ("d0", "a")),
]


@pytest.fixture
def deployment() -> Deployment:
    deployment = make_deployment("glm")
    for name in ("p0", "d0"):
        make_node(deployment, name)
    return deployment


def long_ago() -> datetime:
    return now() - timedelta(days=30)


def store(
    deployment: Deployment, states: list[tuple[str, str | None]], *, since: datetime
) -> list[NodeReading]:
    """Store readings a minute apart, each pointing back where it differs, as services do."""
    nodes = {node.name: node for node in deployment.nodes.all()}
    last: dict[str, NodeReading] = {}
    rows = []
    for minute, (name, state) in enumerate(states):
        before = last.get(name)
        is_changed = state and before is not None and before.fingerprint != state
        row = NodeReading.objects.create(
            node=nodes[name],
            taken_at=since + timedelta(minutes=minute),
            fingerprint=state or "unread",
            problem="" if state else "time-out",
            document={"version": state},
            changed_from=before if is_changed else None,
        )
        rows.append(row)
        if state:
            last[name] = row
    return rows


def prune() -> int:
    Node.objects.update(pruned_at=None)
    return readings_prune()


def left() -> set[int]:
    return set(NodeReading.objects.values_list("pk", flat=True))


def test_the_middle_of_what_never_changed_goes(deployment: Deployment) -> None:
    rows = store(deployment, [("p0", "a")] * 10, since=long_ago())
    assert prune() == 8
    assert left() == {rows[0].pk, rows[-1].pk}
    assert prune() == 0


def test_everything_of_the_last_days_stays(deployment: Deployment, settings: Settings) -> None:
    settings.READINGS_KEPT_DAYS = 14
    store(deployment, [("p0", "a")] * 10, since=now() - timedelta(days=13))
    assert prune() == 0
    settings.READINGS_KEPT_DAYS = 12
    assert prune() == 8
    store(deployment, [("p0", "a")] * 10, since=long_ago())
    settings.READINGS_KEPT_DAYS = 0
    assert prune() == 0


def test_what_an_audit_rests_on_stays(deployment: Deployment) -> None:
    rows = store(deployment, [("p0", "a")] * 10, since=long_ago())
    AuditReading.objects.create(audit=make_audit(deployment), reading=rows[4])
    prune()
    assert left() == {rows[0].pk, rows[4].pk, rows[-1].pk}


def test_whatever_refers_to_readings_is_known() -> None:
    tables = {table for table, _ in retention._references()}  # noqa: SLF001 - what keeps rows
    assert tables >= {"probes_auditreading", "fleet_nodereading"}


def test_one_look_deletes_a_bounded_number(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_A_NODE", 3)
    store(deployment, [("p0", "a")] * 10, since=long_ago())
    assert [readings_prune() for _ in range(4)] == [3, 3, 2, 0]


def test_nodes_take_turns(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "NODES_A_TICK", 1)
    store(deployment, [("p0", "a"), ("d0", "a")] * 5, since=long_ago())
    assert [readings_prune() for _ in range(3)] == [3, 3, 0]
    Node.objects.update(pruned_at=now() - EVERY * 2)
    store(deployment, [("p0", "a")] * 3, since=long_ago() - timedelta(days=1))
    assert readings_prune() + readings_prune() > 0


@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None
)
@example(BOUND_BY_ANOTHER, 2)
@given(STATES, st.integers(0, 12))
def test_pruning_changes_no_history_and_no_bound(
    deployment: Deployment, states: list[tuple[str, str | None]], proved_after: int
) -> None:
    NodeReading.objects.update(changed_from=None)
    deployment.proofs.all().delete()
    NodeReading.objects.all().delete()
    rows = store(deployment, states, since=long_ago())
    proved = {name: state for name, state in states[:proved_after] if state}
    proof = make_proof(
        deployment, granted_at=long_ago() + timedelta(minutes=proved_after, seconds=-1)
    )
    proof.fingerprints = proved
    proof.expires_at = now()
    proof.save()
    history = changes_newest(deployment, limit=99)
    bound = impact_estimate(deployment, detected_at=now())
    newest = {(row.node_id, bool(row.problem)): row.pk for row in rows}
    prune()
    assert changes_newest(deployment, limit=99) == history
    assert impact_estimate(deployment, detected_at=now()) == bound
    assert set(newest.values()) <= left()
    for node in deployment.nodes.all():
        kept = list(node.readings.order_by("taken_at").values_list("fingerprint", flat=True))
        was = [row.fingerprint for row in rows if row.node_id == node.pk]
        assert runs_of(kept) == runs_of(was)
    assert prune() == 0


def runs_of(states: list[str]) -> list[str]:
    """Answer what followed what among readable states, each run once."""
    read = [one for one in states if one != "unread"]
    return read[:1] + [second for first, second in pairwise(read) if first != second]
