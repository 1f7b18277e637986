"""How the gates add up, and that no gate can bring the judgement down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import FleetReading, Rank, Role
from probes.contract import DEFAULT_REQUIRED, Gate
from probes.judge import judge_fleet
from probes.judgement import Check, Kind, Skipped
from tests.probes.builders import decode, node, prefill, unified

WHOLE = FleetReading(readings=(prefill(), decode()))


class Broken:
    title = "raises after its first word"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterator[Check | Skipped]:
        yield said("broken", Verdict.PASS)
        raise RuntimeError(f"secret of {fleet.readings[0].node}")


class Silent:
    title = "says nothing"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        del fleet
        return ()


class NotApplying:
    title = "never applies"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        del fleet
        return (Skipped(check="none", reason="never"),)


def said(name: str, verdict: Verdict) -> Check:
    return Check(check=name, target="t", verdict=verdict, kind=Kind.CONFIG, reason="because")


def test_a_healthy_pair_passes_and_every_check_says_why() -> None:
    judgement = judge_fleet(WHOLE)
    assert judgement.verdict is Verdict.PASS
    assert {check.check for check in judgement.checks if check.required} == set(DEFAULT_REQUIRED)
    assert all(check.reason for check in judgement.checks)


def test_a_healthy_unified_node_passes_with_its_pair_gates_skipped() -> None:
    judgement = judge_fleet(FleetReading(readings=(unified(version="0.5.19"),)))
    assert judgement.verdict is Verdict.PASS
    skipped = {one.check for one in judgement.skipped}
    assert skipped >= {"pair_exposure", "pair_match", "pair_layout", "safe_rejection"}
    assert all(one.reason for one in judgement.skipped)


def test_no_node_at_all_is_inconclusive() -> None:
    assert judge_fleet(FleetReading(readings=())).verdict is Verdict.INCONCLUSIVE


def test_an_advisory_failure_is_shown_and_does_not_block() -> None:
    odd = decode(parallel={"tp_size": "4", "dp_size": "1"})
    judgement = judge_fleet(FleetReading(readings=(prefill(), odd)))
    (layout,) = [check for check in judgement.checks if check.check == "pair_layout"]
    assert layout.verdict is Verdict.FAIL
    assert not layout.required
    assert judgement.verdict is Verdict.PASS


def test_a_profile_may_require_what_is_advisory_by_default() -> None:
    odd = decode(parallel={"tp_size": "4", "dp_size": "1"})
    judgement = judge_fleet(FleetReading(readings=(prefill(), odd)), required=("pair_layout",))
    assert judgement.verdict is Verdict.FAIL
    assert [check.check for check in judgement.checks if check.required] == ["pair_layout"]


def test_a_required_name_without_a_gate_is_inconclusive() -> None:
    judgement = judge_fleet(WHOLE, required=(*DEFAULT_REQUIRED, "pair_exposrue"))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    (unknown,) = [check for check in judgement.checks if check.check == "pair_exposrue"]
    assert unknown.required


def test_no_required_check_left_is_inconclusive() -> None:
    assert judge_fleet(WHOLE, required=()).verdict is Verdict.INCONCLUSIVE
    judgement = judge_fleet(WHOLE, required=("none",), gates={"none": NotApplying()})
    assert judgement.verdict is Verdict.INCONCLUSIVE


def test_a_gate_that_raises_is_an_error_of_that_gate_and_ends_nothing_else() -> None:
    gates: dict[str, Gate] = {"broken": Broken(), "silent": Silent()}
    judgement = judge_fleet(WHOLE, required=("broken",), gates=gates)
    verdicts = [(check.check, check.verdict) for check in judgement.checks]
    assert verdicts == [
        ("broken", Verdict.PASS),
        ("broken", Verdict.ERROR),
        ("silent", Verdict.INCONCLUSIVE),
    ]
    assert judgement.verdict is Verdict.ERROR
    assert "secret" not in judgement.checks[1].reason
    assert "RuntimeError" in judgement.checks[1].reason


def test_a_gate_that_says_nothing_does_not_pass() -> None:
    judgement = judge_fleet(WHOLE, required=("silent",), gates={"silent": Silent()})
    assert judgement.verdict is Verdict.INCONCLUSIVE


def test_checks_made_elsewhere_have_their_say() -> None:
    also = (said("router_workers", Verdict.INCONCLUSIVE),)
    assert judge_fleet(WHOLE, also=also).verdict is Verdict.INCONCLUSIVE
    assert judge_fleet(WHOLE, also=(also[0].as_advisory(),)).verdict is Verdict.PASS


def test_a_known_failure_outranks_what_is_unknown() -> None:
    exposed = prefill(pool=1_024, context=4_096, version="0.5.19")
    judgement = judge_fleet(
        FleetReading(readings=(exposed, decode(pool=4_096, context=4_096, version=None)))
    )
    assert judgement.verdict is Verdict.FAIL


maybe = st.none() | st.integers(min_value=1, max_value=50_000)


@given(
    roles=st.lists(st.sampled_from(list(Role)), max_size=4),
    figures=st.lists(
        st.fixed_dictionaries(
            {
                "context": maybe,
                "first_refused": maybe,
                "version": st.sampled_from([None, "0.5.19", "0.5.23", "x"]),
                "allow_auto_truncate": st.none() | st.booleans(),
                "layout": st.sampled_from([{}, prefill().layout]),
                "problem": st.sampled_from(["", "timed out"]),
                "reported_role": st.none() | st.sampled_from(list(Role)),
                "pools": st.lists(maybe, max_size=3),
            }
        ),
        min_size=4,
        max_size=4,
    ),
)
def test_any_reading_is_judged_and_a_pass_has_every_figure_it_needs(
    roles: list[Role], figures: list[dict[str, Any]]
) -> None:
    readings = []
    for number, (role, given_figures) in enumerate(zip(roles, figures, strict=False)):
        over = dict(given_figures)
        pools = over.pop("pools")
        ranks = tuple(Rank(index=n, token_capacity=pool) for n, pool in enumerate(pools))
        readings.append(node(f"n{number}", role, ranks=ranks, **over))
    judgement = judge_fleet(FleetReading(readings=tuple(readings)))
    assert not [check for check in judgement.checks if check.verdict is Verdict.ERROR]
    if judgement.verdict is not Verdict.PASS:
        return
    assert readings
    split = [one for one in readings if one.role is not Role.UNIFIED]
    assert {one.role for one in split} in (set(), {Role.PREFILL, Role.DECODE})
    for one in readings:
        assert not one.problem
        assert one.reported_role in (one.role, None)
    for one in split:
        assert one.reported_role is one.role
        assert one.first_refused is not None
        assert one.version == "0.5.23"
        assert one.layout["kv_cache_dtype"] == "fp8_e4m3"
