"""Every remedy with flags closes its check when the gate judges the fleet with them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Rank, Reading
from probes.contract import GATES
from probes.judge import judge_fleet
from probes.judgement import Check, Remedy
from probes.remedy import MOST_TARGETS
from probes.table import render_table
from probes.verbs import judge
from tests.probes.builders import decode, limit_of, prefill, unified

#: The pools and the context of September; 2,044,000 is "about 2.04 million, twice the context".
SEPTEMBER = (
    prefill(pool=681_280, context=1_048_576, version="0.5.19"),
    decode(pool=2_044_000, context=1_048_576, version="0.5.19"),
)


def remedies(*readings: Reading, **terms: Any) -> list[Remedy]:  # noqa: ANN401
    return list(judge_fleet(FleetReading(readings=readings, **terms)).remedies)


def of(check: str, found: list[Remedy], flag: str = "") -> Remedy:
    return next(
        one
        for one in found
        if one.check == check
        and (not flag or any(flag in word for words in one.flags.values() for word in words))
    )


def test_september_is_closed_by_the_context_on_every_node() -> None:
    remedy = of("pool_covers_context", remedies(*SEPTEMBER))
    # floor(681,280 / 1.25) = 545,024
    assert remedy.flags == {
        "prefill-1": ("--context-length 545024",),
        "decode-1": ("--context-length 545024",),
    }
    assert remedy.predicted_band is None
    assert remedy.full_length_requests_before == pytest.approx(0.65, abs=0.005)
    assert remedy.full_length_requests_after == pytest.approx(1.25)


def test_september_is_closed_by_the_pool_that_is_needed() -> None:
    found = [one for one in remedies(*SEPTEMBER) if one.check == "pool_covers_context"]
    assert "a pool of 1,310,720 tokens" in found[1].action
    assert found[1].full_length_requests_after == pytest.approx(1.25)


def test_equal_pools_cost_the_larger_side_what_it_holds_beyond() -> None:
    remedy = of("pair_exposure", remedies(*SEPTEMBER), "--max-total-tokens")
    assert remedy.flags == {"decode-1": ("--max-total-tokens 681280",)}
    assert remedy.full_length_requests_before == pytest.approx(1.95, abs=0.005)
    assert remedy.full_length_requests_after == pytest.approx(0.65, abs=0.005)


def test_the_upgrade_is_named_where_the_version_is_the_fault() -> None:
    found = remedies(*SEPTEMBER)
    exposure = [one for one in found if one.check == "pair_exposure"]
    assert "upgrade prefill-1 to sglang 0.5.21" in exposure[-1].action
    assert exposure[-1].predicted_band == [681_274, 1_048_569]
    assert "0.5.21 or later" in of("safe_rejection", found).action


def test_auto_truncate_is_no_matter_of_the_version() -> None:
    truncating = replace(SEPTEMBER[0], allow_auto_truncate=True, version="0.5.23")
    found = [one for one in remedies(truncating, SEPTEMBER[1]) if one.check == "pair_exposure"]
    assert found
    assert not any("upgrade" in one.action for one in found)
    assert "without --allow-auto-truncate on prefill-1" in found[0].action


def test_a_pool_that_a_setting_keeps_small_gets_its_flag() -> None:
    kept = unified(pool=1_024, context=4_096, flags={"max_total_tokens": "1024"})
    found = [one for one in remedies(kept) if one.check == "pool_covers_context"]
    assert found[1].flags == {"node-1": ("--max-total-tokens 5120",)}


def test_a_reserve_that_fits_is_named() -> None:
    node = decode(pool=4_400, context=4_096, reserve=512)
    remedy = of("decode_admission", remedies(node), "reserved")
    # The longest that is admitted is 4,096 - 7, beside which 311 tokens are left of 4,400.
    assert remedy.flags == {"decode-1": ("--num-reserved-decode-tokens 311",)}


def test_a_pool_that_is_not_known_gives_no_context() -> None:
    silent = replace(SEPTEMBER[1], ranks=(), pool=None, first_refused=None)
    found = [one for one in remedies(SEPTEMBER[0], silent) if one.check == "pool_covers_context"]
    assert not any("--context-length" in str(one.flags) for one in found)


def test_a_healthy_fleet_needs_none() -> None:
    flags = {"disaggregation_enable_kv_checksum": "true"}
    assert remedies(prefill(flags=flags), decode(flags=flags)) == []


def test_a_large_fleet_is_not_told_the_same_thousands_of_times() -> None:
    many = [unified(f"n{number}", pool=1_024, context=4_096) for number in range(MOST_TARGETS + 9)]
    found = remedies(*many)
    targets = {one.target for one in found if one.check == "pool_covers_context"}
    assert len(targets) == MOST_TARGETS


SIZES = st.integers(min_value=700, max_value=60_000)


def started_with(reading: Reading, flags: tuple[str, ...]) -> Reading:
    """Answer what SGLang would show after these flags, by its own arithmetic, made anew here."""
    pool, context = reading.pool or 0, reading.context or 0
    reserve = reading.reserve
    for flag in flags:
        name, _, value = flag.partition(" ")
        if name == "--context-length":
            context = int(value)
        elif name == "--max-total-tokens":
            pool = int(value)
        elif name == "--num-reserved-decode-tokens":
            reserve = int(value)
    ranks = tuple(replace(one, token_capacity=pool, reported_pool=pool) for one in reading.ranks)
    return replace(
        reading,
        pool=pool,
        context=context,
        ranks=ranks,
        reserve=reserve,
        first_refused=limit_of(pool, context),
    )


LENGTHS = {"pool_covers_context", "pair_exposure", "pair_limits", "decode_admission"}


NODES = st.fixed_dictionaries({"pool": SIZES, "context": SIZES})


@settings(max_examples=60, deadline=None)
@given(NODES, NODES, st.booleans(), st.sampled_from(["0.5.19", "0.5.23"]))
def test_flags_close_what_they_are_named_for(
    near: dict[str, Any], far: dict[str, Any], truncates: bool, version: str
) -> None:
    pair = (
        prefill(**near, version=version, allow_auto_truncate=truncates),
        decode(**far, version=version, reserve=16),
    )
    for remedy in remedies(*pair):
        if remedy.check in LENGTHS and remedy.flags:
            new = [started_with(node, wanted(remedy, node)) for node in pair]
            (verdict,) = [
                found.verdict
                for found in GATES.get(remedy.check).judge(FleetReading(readings=tuple(new)))
                if isinstance(found, Check) and found.target == remedy.target
            ]
            assert verdict is not Verdict.FAIL, remedy


def wanted(remedy: Remedy, node: Reading) -> tuple[str, ...]:
    """Answer the flags of a node, and the pool that only hardware gives it."""
    needed = re.search(rf"give {node.node} a pool of ([0-9,]+) tokens", remedy.action)
    pool = (f"--max-total-tokens {needed[1].replace(',', '')}",) if needed else ()
    return (*remedy.flags.get(node.node, ()), *pool)


@settings(deadline=None)
@given(SIZES, SIZES)
def test_costs_are_finite(near: int, far: int) -> None:
    for remedy in remedies(prefill(pool=near), decode(pool=far)):
        for figure in (remedy.full_length_requests_before, remedy.full_length_requests_after):
            assert figure is None or (math.isfinite(figure) and figure > 0)


def test_the_table_and_the_json_show_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = render_table(judge_fleet(FleetReading(readings=SEPTEMBER)))
    assert "  remedy: lower the context to 545,024 on every node" in text
    assert "    prefill-1, decode-1: --context-length 545024" in text
    info = {"max_req_input_len": 1_018, "max_total_num_tokens": 1_024, "context_length": 4_096}
    responses = {"GET /server_info": {"status": 200, "json": info}}
    node = {"name": "n", "engine": "sglang", "role": "unified", "responses": responses}
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"nodes": [node]}), encoding="utf-8")
    judge.main([str(path), "--json"])
    first = json.loads(capsys.readouterr().out)["remedies"][0]
    # floor(1,024 / 1.25) = 819
    assert first["flags"] == {"n": ["--context-length 819"]}
    assert {*first} == {
        "check",
        "target",
        "action",
        "flags",
        "predicted_band",
        "full_length_requests_before",
        "full_length_requests_after",
    }


#: What SGLang shows under which name after which flag, written down anew here.
SHOWN_AS = {
    "--kv-cache-dtype": "kv_cache_dtype",
    "--dtype": "dtype",
    "--page-size": "page_size",
    "--quantization": "quantization",
    "--context-length": "context",
    "--speculative-algorithm": "speculative_algorithm",
    "--speculative-num-steps": "speculative_num_steps",
    "--speculative-eagle-topk": "speculative_eagle_topk",
    "--speculative-num-draft-tokens": "speculative_num_draft_tokens",
    "--tp-size": "tp_size",
    "--pp-size": "pp_size",
    "--dp-size": "dp_size",
    "--ep-size": "ep_size",
}
#: Settings that no flag alone makes alike.
NO_FLAG = {"weights": "n - 2", "dcp_size": "2"}
BATCH = "SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES"


def restarted(reading: Reading, remedy: Remedy) -> Reading:
    """Answer what SGLang shows after the flags of a remedy and what its words take away."""
    said = {flag.split(" ")[0]: flag.split(" ")[1] for flag in remedy.flags.get(reading.node, ())}
    taken = re.search(rf"{reading.node} without ([^;]+)", remedy.action)
    said.update(dict.fromkeys(taken[1].split(", ") if taken else [], "null"))
    shown = {SHOWN_AS[flag]: value for flag, value in said.items()}
    return replace(
        reading,
        context=int(shown.pop("context")) if "context" in shown else reading.context,
        layout={name: shown.get(name, value) for name, value in reading.layout.items()},
        parallel={name: shown.get(name, value) for name, value in reading.parallel.items()},
    )


def verdict_of(check: str, target: str, *readings: Reading) -> Verdict:
    (verdict,) = [
        found.verdict
        for found in GATES.get(check).judge(FleetReading(readings=readings))
        if isinstance(found, Check) and found.target == target
    ]
    return verdict


LAYOUT = {**prefill().layout, "dtype": "bfloat16", "speculative_num_steps": "3"}
PARALLEL = {"tp_size": "8", "pp_size": "1", "dp_size": "1", "ep_size": "1", "dcp_size": "1"}
OTHERS = {**dict.fromkeys([*LAYOUT, *PARALLEL], "7"), **NO_FLAG}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from([*LAYOUT, *PARALLEL]), unique=True),
    st.lists(st.sampled_from([*LAYOUT, *PARALLEL]), unique=True),
    st.sampled_from([16_384, 8_192]),
)
def test_following_prefill_by_the_flags_passes_the_gate(
    unlike: list[str], unset: list[str], context: int
) -> None:
    near = prefill(
        layout={name: "null" if name in unset else value for name, value in LAYOUT.items()},
        parallel={name: "null" if name in unset else value for name, value in PARALLEL.items()},
    )
    far = decode(
        context=context,
        layout={name: OTHERS[name] if name in unlike else v for name, v in LAYOUT.items()},
        parallel={name: OTHERS[name] if name in unlike else v for name, v in PARALLEL.items()},
    )
    for remedy in remedies(near, far):
        if remedy.check not in {"pair_match", "pair_layout"}:
            continue
        verdict = verdict_of(remedy.check, remedy.target, near, restarted(far, remedy))
        named = [name for name in NO_FLAG if name in remedy.action]
        if remedy.flags:
            assert verdict is Verdict.PASS, remedy
            assert not named
        elif not named:
            assert verdict is Verdict.PASS, "what it takes away is enough"
        else:
            assert "which no flag alone gives" in remedy.action


def test_other_weights_are_named_and_no_flag_pretends_to_give_them() -> None:
    far = decode(layout={**decode().layout, "weights": "n - 2", "page_size": "32"})
    (remedy,) = [one for one in remedies(prefill(), far) if one.check == "pair_match"]
    assert remedy.flags == {}
    assert "decode-1 with --page-size 64" in remedy.action
    assert "the same weights on both sides" in remedy.action


@pytest.mark.parametrize("version", ["0.5.19", "0.5.21", "0.5.22", "0.5.23", "0.5.23.dev1", None])
@pytest.mark.parametrize("environment", ["shown", None])
def test_the_bound_of_a_transfer_passes_the_gate(
    version: str | None, environment: str | None
) -> None:
    word = Attestation(key=BATCH, value="0")
    sender = prefill(
        version=version,
        transfer_backend="mooncake",
        flags={"environment": environment},
        attested={} if environment else {BATCH: word},
    )
    (remedy,) = [one for one in remedies(sender, decode()) if one.check == "bounded_transfer"]
    ((name, _, value),) = [flag.partition("=") for flag in remedy.flags["prefill-1"]]
    upgrade = re.search(r"upgrade it to ([0-9.]+) or later", remedy.action)
    after = replace(sender, version=upgrade[1] if upgrade else version)
    if environment:
        after = replace(after, flags={**after.flags, name: value})
    else:
        told = re.search(rf"then attest ({BATCH})=([0-9]+)", remedy.action)
        assert told
        after = replace(after, attested={told[1]: Attestation(key=told[1], value=told[2])})
    assert verdict_of("bounded_transfer", "prefill-1", after) is Verdict.PASS, remedy


@settings(deadline=None)
@given(
    st.integers(min_value=512, max_value=60_000),
    st.sampled_from([("1", None), ("4", "true"), ("2", "true")]),
    st.sampled_from([None, 70_000]),
    st.sampled_from(["1.25", "2.5"]),
)
def test_llama_cpp_is_closed_by_slots_that_share_nothing(
    size: int, slots: tuple[str, str | None], promised: int | None, headroom: str
) -> None:
    node = unified(
        "n",
        engine="llamacpp",
        version="b11549",
        context=size,
        first_refused=size,
        pool=size,
        ranks=(Rank(index=0, token_capacity=size),),
        flags={"total_slots": slots[0]},
    )
    (remedy,) = remedies(node, headroom=Decimal(headroom), advertised=promised)
    said = dict(flag.partition(" ")[::2] for flag in remedy.flags["n"])
    assert {*said} == {"--ctx-size", "--parallel", "--no-kv-unified"}
    total, count = int(said["--ctx-size"]), int(said["--parallel"])
    assert total % count == 0
    slot = total // count
    after = replace(
        node,
        context=slot,
        first_refused=slot,
        pool=total,
        ranks=(Rank(index=0, token_capacity=total),),
        flags={"total_slots": str(count)},
    )
    fleet = FleetReading(readings=(after,), headroom=Decimal(headroom), advertised=promised)
    found = judge_fleet(fleet)
    (pool,) = [one for one in found.checks if one.check == "pool_covers_context"]
    assert pool.verdict is Verdict.PASS, pool
