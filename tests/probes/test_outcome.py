"""What an audit leaves behind: findings, proofs, and nothing from a worker that lost its lease."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from common.clock import now
from common.verdicts import Verdict
from fleet.models import Deployment, Node
from fleet.reading import Rank, Reading, Role
from probes.judgement import Check, Judgement, Kind, Remedy
from probes.models import Audit, Finding, Proof
from probes.outcome import AuditOutcome, audit_finish, drifted, fingerprints_of, headline_of
from probes.selectors import findings_awaiting_incident, proof_standing

pytestmark = pytest.mark.django_db
OWNER = "worker"


@pytest.fixture
def deployment() -> Deployment:
    deployment = Deployment.objects.create(name="one", model="m")
    for name, role in (("prefill-1", Role.PREFILL), ("decode-1", Role.DECODE)):
        Node.objects.create(
            deployment=deployment, name=name, role=role.value, url=f"http://127.0.0.1/{name}"
        )
    return deployment


def make_audit(deployment: Deployment) -> Audit:
    return Audit.objects.create(
        deployment=deployment, requested_by="test", lease_owner=OWNER, state="running"
    )


def make_check(
    verdict: Verdict, *, check: str = "pair_exposure", kind: Kind = Kind.CONFIG
) -> Check:
    return Check(check=check, target="p/d", verdict=verdict, kind=kind, reason=f"{check} {verdict}")


def make_readings(**changes: object) -> tuple[Reading, ...]:
    facts = {"version": "0.5.22", "started": "moment-1", "first_refused": 16_378, **changes}
    return tuple(
        Reading(
            node=name,
            engine="sglang",
            role=role,
            taken_at=datetime(2026, 11, 29, tzinfo=UTC),
            ranks=(Rank(index=0, token_capacity=20_480),),
            **facts,  # type: ignore[arg-type]
        )
        for name, role in (("prefill-1", Role.PREFILL), ("decode-1", Role.DECODE))
    )


def finish(
    audit: Audit,
    *checks: Check,
    readings: Sequence[Reading] | None = None,
    has_rounds: bool = True,
) -> bool:
    return audit_finish(
        audit=audit,
        owner=OWNER,
        outcome=AuditOutcome(
            judgement=Judgement(checks=checks),
            readings_before=make_readings() if readings is None else readings,
            has_rounds=has_rounds,
        ),
    )


def test_a_pass_with_rounds_is_proved_for_a_day(deployment: Deployment) -> None:
    finish(make_audit(deployment), make_check(Verdict.PASS))
    proof = proof_standing(deployment)
    assert proof is not None
    assert set(proof.fingerprints) == {"prefill-1", "decode-1"}
    with time_machine.travel(now() + timedelta(hours=24, seconds=1), tick=False):
        assert proof_standing(deployment) is None


def test_gates_alone_prove_nothing(deployment: Deployment) -> None:
    finish(make_audit(deployment), make_check(Verdict.PASS), has_rounds=False)
    assert proof_standing(deployment) is None


def test_a_node_whose_restart_would_not_show_gets_no_proof(deployment: Deployment) -> None:
    finish(make_audit(deployment), make_check(Verdict.PASS), readings=make_readings(started=None))
    assert proof_standing(deployment) is None


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.PASS])
def test_anything_but_a_pass_voids_the_proof(deployment: Deployment, verdict: Verdict) -> None:
    finish(make_audit(deployment), make_check(Verdict.PASS))
    finish(make_audit(deployment), make_check(verdict))
    assert proof_standing(deployment) is None
    assert Proof.objects.get().void_reason


def test_an_advisory_failure_voids_nothing(deployment: Deployment) -> None:
    advice = make_check(Verdict.FAIL, check="pair_layout").as_advisory()
    finish(make_audit(deployment), make_check(Verdict.PASS), advice)
    assert proof_standing(deployment) is not None
    assert Finding.objects.get().check_name == "pair_layout"


def test_a_finding_is_one_row_until_its_check_passes(deployment: Deployment) -> None:
    finish(make_audit(deployment), make_check(Verdict.FAIL))
    first = Finding.objects.get()
    finish(make_audit(deployment), make_check(Verdict.FAIL))
    assert Finding.objects.get().pk == first.pk
    finish(make_audit(deployment), make_check(Verdict.INCONCLUSIVE))
    assert Finding.objects.get().resolved_at is None
    finish(make_audit(deployment), make_check(Verdict.PASS))
    assert Finding.objects.get().resolved_at is not None


def test_a_finding_keeps_the_ways_to_close_it(deployment: Deployment) -> None:
    mine = Remedy(
        check="pair_exposure", target="p/d", action="lower", flags={"p": ("--context-length 8",)}
    )
    other = Remedy(check="pair_limits", target="p/d", action="another")
    judgement = Judgement(checks=(make_check(Verdict.FAIL),), remedies=(mine, other))
    audit = make_audit(deployment)
    audit_finish(
        audit=audit,
        owner=OWNER,
        outcome=AuditOutcome(judgement=judgement, readings_before=make_readings()),
    )
    (remedy,) = Finding.objects.get().remedies
    assert (remedy["action"], remedy["flags"]) == ("lower", {"p": ["--context-length 8"]})


def test_a_finding_that_comes_back_is_a_new_one(deployment: Deployment) -> None:
    for verdict in (Verdict.FAIL, Verdict.PASS, Verdict.FAIL):
        finish(make_audit(deployment), make_check(verdict))
    assert Finding.objects.count() == 2
    assert Finding.objects.filter(resolved_at=None).count() == 1


def test_only_a_canary_of_a_security_kind_awaits_an_incident(deployment: Deployment) -> None:
    finish(
        make_audit(deployment),
        make_check(Verdict.FAIL),
        make_check(Verdict.FAIL, check="boundary.foreign_marker", kind=Kind.LEAK),
        make_check(Verdict.FAIL, check="boundary.answered", kind=Kind.AVAILABILITY),
    )
    awaiting = findings_awaiting_incident()
    assert [one.check_name for one in awaiting] == ["boundary.foreign_marker"]


def test_a_worker_that_lost_its_lease_stores_nothing(deployment: Deployment) -> None:
    audit = make_audit(deployment)
    Audit.objects.filter(pk=audit.pk).update(lease_owner="another")
    assert not finish(audit, make_check(Verdict.PASS))
    audit.refresh_from_db()
    assert audit.verdict == ""
    assert not audit.checks.exists()


def test_the_canary_speaks_first_in_the_headline() -> None:
    judgement = Judgement(
        checks=(
            make_check(Verdict.FAIL),
            make_check(Verdict.FAIL, check="boundary.foreign_marker", kind=Kind.LEAK),
        )
    )
    assert headline_of(judgement) == "boundary.foreign_marker fail"


@pytest.mark.parametrize(
    ("changes", "is_drift"),
    [({}, False), ({"version": "0.5.23"}, True), ({"started": "moment-2"}, True)],
)
def test_a_change_or_a_restart_is_drift(
    deployment: Deployment, changes: dict[str, str], is_drift: bool
) -> None:
    finish(make_audit(deployment), make_check(Verdict.PASS))
    proof = Proof.objects.get()
    assert bool(drifted(proof, fingerprints_of(make_readings(**changes)))) is is_drift


def test_a_node_that_went_or_came_is_drift(deployment: Deployment) -> None:
    finish(make_audit(deployment), make_check(Verdict.PASS))
    proof = Proof.objects.get()
    present = fingerprints_of(make_readings())
    assert "no longer read" in drifted(proof, {"prefill-1": present["prefill-1"]})
    assert "joined" in drifted(proof, {**present, "decode-2": "x"})
