from __future__ import annotations

from datetime import timedelta

import pytest

from common.clock import now
from common.verdicts import Verdict
from probes.models import Audit, Proof
from probes.standing import standing_of


def audit(verdict: Verdict) -> Audit:
    return Audit(verdict=verdict, headline="the deciding figure", ended_at=now())


def proof(*, left: timedelta = timedelta(hours=1), void_reason: str = "") -> Proof:
    return Proof(
        granted_at=now() - timedelta(hours=23),
        expires_at=now() + left,
        voided_at=now() if void_reason else None,
        void_reason=void_reason,
    )


def test_a_pass_with_a_standing_proof_is_a_pass() -> None:
    standing = standing_of(audit(Verdict.PASS), proof())
    assert (standing.verdict, standing.is_proved) == ("pass", True)
    assert standing.why == "the deciding figure"


@pytest.mark.parametrize(
    ("left_over", "words"),
    [
        (None, "left no proof"),
        (proof(left=timedelta(seconds=-1)), "ran out"),
        (proof(void_reason="prefill-1 restarted"), "prefill-1 restarted"),
    ],
)
def test_a_pass_whose_proof_does_not_stand_is_inconclusive(
    left_over: Proof | None, words: str
) -> None:
    standing = standing_of(audit(Verdict.PASS), left_over)
    assert standing.verdict == "inconclusive"
    assert words in standing.why


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.PASS])
def test_any_other_verdict_stands_whatever_the_proof(verdict: Verdict) -> None:
    assert standing_of(audit(verdict), proof()).verdict == verdict


def test_without_an_audit_nothing_is_said() -> None:
    assert standing_of(None, None).verdict == ""
