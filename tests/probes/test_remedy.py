"""Every remedy with flags closes its check when the gate judges the fleet with them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
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
