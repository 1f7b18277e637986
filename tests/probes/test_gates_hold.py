"""What every gate keeps: without data it does not pass, and whatever it reads it does not raise."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Rank, Reading, Role
from probes.contract import GATES
from probes.judge import judge_fleet
from probes.judgement import Check, Kind
from probes.remedy import remedies_for

load_plugins("probes.gates")
MOMENT = datetime(2026, 11, 29, tzinfo=UTC)
#: They judge what was seen: a node that answered and showed nothing of the kind is not at fault.
OF_WHAT_IS_SEEN = {"secret_exposure"}
KINDS = {
    "pair_limits": Kind.AVAILABILITY,
    "decode_admission": Kind.AVAILABILITY,
    "secret_exposure": Kind.SECRET,
}


@pytest.mark.parametrize("engine", ["sglang", "vllm", "llamacpp"])
@pytest.mark.parametrize("key", sorted({*GATES.all()} - OF_WHAT_IS_SEEN))
def test_no_gate_passes_without_data(key: str, engine: str) -> None:
    readings = tuple(
        Reading(node=role.value, engine=engine, role=role, taken_at=MOMENT) for role in Role
    )
    for fleet in (readings, readings[:2], readings[2:]):
        for found in GATES.get(key).judge(FleetReading(readings=fleet)):
            if isinstance(found, Check):
                assert found.verdict is not Verdict.PASS, (key, found)
                assert found.reason


def test_each_gate_has_the_one_kind_of_its_table() -> None:
    for key, gate in GATES.all().items():
        assert gate.kind is KINDS.get(key, Kind.CONFIG)


NUMBERS = st.none() | st.integers(min_value=0, max_value=50_000)
WORDS = st.none() | st.sampled_from(
    ["", "true", "false", "null", "0", "1", "8", "-1", "x", "mooncake", "mori", "/nvme/kv", "log"]
)
NAMES = st.sampled_from(
    [
        "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE",
        "SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES",
        "attention_backend",
        "disaggregation_enable_kv_checksum",
        "enable_dp_attention",
        "enable_hierarchical_cache",
        "enable_pd_role_switch",
        "environment",
        "hicache_storage_backend",
        "kv_canary",
        "max_total_tokens",
        "page_size",
        "pp_size",
        "spill_paths",
        "tp_size",
    ]
)
TABLES = st.dictionaries(NAMES, WORDS, max_size=8)
VOUCHED = st.dictionaries(
    st.sampled_from(
        ["transfer_backend", "kv_lease_duration", "router_queue_s", "patch.38935", "image_digest"]
    )
    | NAMES,
    WORDS.map(lambda word: Attestation(key="k", value=word or "")),
    max_size=4,
)
READINGS = st.builds(
    Reading,
    node=st.sampled_from(["a", "b", "c/d", ""]),
    engine=st.sampled_from(["sglang", "vllm", "llamacpp"]),
    role=st.sampled_from(Role),
    taken_at=st.just(MOMENT),
    problem=st.sampled_from(["", "", "", "timed out"]),
    reported_role=st.none() | st.sampled_from(Role),
    version=st.none() | st.sampled_from(["0.5.19", "0.5.21", "0.5.23", "0.5.99", "dev", "x"]),
    context=NUMBERS,
    first_refused=NUMBERS,
    pool=NUMBERS,
    page_size=NUMBERS,
    reserve=NUMBERS,
    allow_auto_truncate=st.none() | st.booleans(),
    transfer_backend=WORDS,
    ranks=st.lists(
        st.builds(Rank, index=st.integers(0, 3), token_capacity=NUMBERS, swa_capacity=NUMBERS),
        max_size=3,
    ).map(tuple),
    layout=TABLES,
    parallel=TABLES,
    flags=TABLES,
    counters=st.dictionaries(
        st.just("vllm:nixl_num_kv_expired_reqs_total"), st.floats(0, 9), max_size=1
    ),
    attested=VOUCHED,
)


@settings(deadline=None, max_examples=150)
@given(st.lists(READINGS, max_size=4))
def test_no_reading_makes_a_gate_raise(readings: list[Reading]) -> None:
    judgement = judge_fleet(FleetReading(readings=tuple(readings)))
    errors = [check for check in judgement.checks if check.verdict is Verdict.ERROR]
    assert errors == []
    assert all(check.reason for check in judgement.checks)


@settings(deadline=None, max_examples=80)
@given(st.lists(READINGS, max_size=4))
def test_no_reading_makes_a_remedy_raise(readings: list[Reading]) -> None:
    fleet = FleetReading(readings=tuple(readings))
    checks = judge_fleet(fleet).checks
    for remedy in remedies_for(fleet, checks):
        assert remedy.action
