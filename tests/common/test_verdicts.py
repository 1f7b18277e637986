"""How verdicts add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict, worst

VERDICTS = st.sampled_from(list(Verdict))


def test_no_verdict_is_no_pass() -> None:
    assert worst([]) is Verdict.INCONCLUSIVE


@given(st.lists(VERDICTS, min_size=1))
def test_a_pass_needs_every_check_to_pass(verdicts: list[Verdict]) -> None:
    assert (worst(verdicts) is Verdict.PASS) == all(one is Verdict.PASS for one in verdicts)


@given(st.lists(VERDICTS))
def test_one_failure_outranks_everything(verdicts: list[Verdict]) -> None:
    assert worst([*verdicts, Verdict.FAIL]) is Verdict.FAIL


@given(st.lists(VERDICTS, min_size=1), st.randoms())
def test_the_order_of_checks_does_not_matter(verdicts: list[Verdict], random: object) -> None:
    shuffled = list(verdicts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert worst(shuffled) is worst(verdicts)
