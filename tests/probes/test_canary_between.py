"""A redeploy between two rounds must not be proved without its gates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from probes.canary.results import RoundResult
from probes.canary.runner import run_round
from probes.conduct import audit_conduct
from probes.models import Audit, Way
from probes.selectors import proof_standing
from probes.services import audit_queue
from tests.deployments import Register, redeploy

pytestmark = pytest.mark.django_db


def two_rounds(register: Register) -> tuple[Audit, Any]:
    deployment, drill = register("--scenario", "healthy")
    audit = audit_queue(
        deployment=deployment, actor="test", trigger="test", way=Way.ROUTER, seeds=[1, 2]
    )
    return audit, drill


def test_a_redeploy_between_two_rounds_is_no_pass(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit, drill = two_rounds(register)
    rounds: list[RoundResult] = []

    async def and_redeploy(*given: Any) -> RoundResult:  # noqa: ANN401 - as the real one
        result = await run_round(*given)
        rounds.append(result)
        if len(rounds) == 1:
            await asyncio.to_thread(redeploy, drill, "decode-1", pool=20544)
        return result

    monkeypatch.setattr("probes.conduct.run_round", and_redeploy)
    audit_conduct(audit_pk=audit.pk)
    audit.refresh_from_db()
    assert len(rounds) == 2
    assert audit.verdict == "inconclusive"
    assert "decode-1" in audit.checks.get(check_name="rounds_of_one_kind").reason
    assert proof_standing(audit.deployment) is None


def test_two_rounds_of_the_same_engines_are_a_pass(register: Register) -> None:
    audit, _ = two_rounds(register)
    audit_conduct(audit_pk=audit.pk)
    audit.refresh_from_db()
    assert audit.verdict == "pass", audit.headline
    assert not audit.checks.filter(check_name="rounds_of_one_kind").exists()
    assert proof_standing(audit.deployment) is not None
