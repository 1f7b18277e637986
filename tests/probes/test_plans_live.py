"""Plans abort, concurrency, salt and gateway by the real verb, on drills with each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from probes.verbs.canary import main
from probes.verbs.judge import main as judge_verb
from tests.deployments import DrillCluster, DrillStarter
from tests.probes.test_canary_live import cordon

Checks = dict[str, dict[str, Any]]
Ask = Callable[..., tuple[int, Checks]]
ACCEPTED = ("--accept-exposure", "rehearsal on a drill", "--as", "Ada")


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a plan; answer its exit code and its checks by oracle. The round is kept."""

    def run(drill: DrillCluster, plan: str, *options: str) -> tuple[int, Checks]:
        files = []
        for letter, tenant in zip("ab", drill.tenants, strict=True):
            path = tmp_path / letter
            path.write_text(tenant["api_key"] + "\n")
            files += [f"--tenant-{letter}-key-file", str(path)]
        given = ["--engine", "sglang", "--target", drill.router, "--model", drill.model]
        capsys.readouterr()
        code = main([*given, *files, "--plan", plan, *options, "--json"])
        document = json.loads(capsys.readouterr().out)
        (tmp_path / "capture.json").write_text(
            json.dumps({"nodes": [], "canary": {"rounds": document["rounds"]}})
        )
        checks = {one["check"].removeprefix(f"{plan}."): one for one in document["checks"]}
        return code, checks

    return run


@pytest.fixture
def ask_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Checks]:
    """Judge the round that was kept, elsewhere."""

    def run(plan: str) -> Checks:
        capsys.readouterr()
        judge_verb([str(tmp_path / "capture.json"), "--json"])
        found = json.loads(capsys.readouterr().out)["checks"]
        return {
            one["check"].removeprefix(f"{plan}."): one
            for one in found
            if one["check"].startswith(f"{plan}.")
        }

    return run


def failed(checks: Checks) -> dict[str, str]:
    return {
        name: one["kind"]
        for name, one in checks.items()
        if one["verdict"] == "fail" and one["required"]
    }


def required(checks: Checks) -> set[str]:
    return {one["verdict"] for one in checks.values() if one["required"]}


def test_a_gateway_that_knows_no_tenants_is_found_and_one_that_does_passes(
    start_drill: DrillStarter, ask: Ask
) -> None:
    code, checks = ask(
        start_drill("--scenario", "gateway-cache"), "gateway", "--budget-tokens", "20000"
    )
    assert (code, failed(checks)) == (1, {"shared_answer": "leak"})
    assert checks["shared_answer"]["figures"]["layer"] == "gateway response cache"
    guarded = start_drill("--scenario", "gateway-cache", "--guard", "tenant-key")
    code, checks = ask(guarded, "gateway", "--budget-tokens", "20000")
    assert (code, required(checks)) == (0, {"pass"}), checks


def test_without_a_gateway_nothing_passes_and_nothing_fails(
    start_drill: DrillStarter, ask: Ask
) -> None:
    drill = start_drill("--scenario", "healthy")
    code, checks = ask(drill, "gateway", "--budget-tokens", "20000")
    assert code == 2
    assert checks["shared_answer"]["verdict"] in {"inconclusive", "not_exercised"}


def test_a_pair_client_never_meets_a_gateway(start_drill: DrillStarter, ask: Ask) -> None:
    drill = start_drill("--scenario", "gateway-cache")
    code, checks = ask(drill, "gateway", "--via", "pair", "--budget-tokens", "20000")
    assert (code, required(checks)) == (2, {"not_exercised"})


@pytest.mark.parametrize(
    ("scenario", "guard", "found"),
    [
        ("salt-ignored", "salt", {"foreign_hit": "leak", "foreign_speed": "timing"}),
        ("disk-tier", "tier-key", {"foreign_hit": "leak"}),
    ],
)
def test_a_salt_that_keeps_nobody_apart_is_found_and_one_that_does_passes(
    start_drill: DrillStarter, ask: Ask, scenario: str, guard: str, found: dict[str, str]
) -> None:
    # A new prompt then takes a fifth of a second, which a busy machine does not hide.
    slow = ("--prefill-speed", "10000")
    code, checks = ask(
        start_drill("--scenario", scenario, *slow), "salt", "--budget-tokens", "120000"
    )
    assert code == 1
    assert found.items() <= failed(checks).items(), checks
    guarded = start_drill("--scenario", scenario, *slow, "--guard", guard)
    code, checks = ask(guarded, "salt", "--budget-tokens", "120000")
    assert (code, required(checks)) == (0, {"pass"}), checks
    # Without salts the tenants share the cache, which is told and does not block.
    assert checks["unsalted"]["verdict"] == "fail"


def test_without_a_prefix_cache_salts_are_not_exercised(
    start_drill: DrillStarter, ask: Ask
) -> None:
    drill = start_drill("--scenario", "healthy", "--prefill-speed", "20000")
    code, checks = ask(drill, "salt", "--budget-tokens", "60000")
    assert code == 2
    assert [name for name, one in checks.items() if one["verdict"] == "pass"] == ["answered"]


def test_a_guard_that_answers_with_an_error_is_an_outage_and_no_leak(
    start_drill: DrillStarter, ask: Ask
) -> None:
    drill = start_drill("--scenario", "salt-ignored", "--guard", "page-tags")
    code, checks = ask(drill, "salt", "--budget-tokens", "120000")
    assert (code, failed(checks)) == (1, {"answered": "availability"})


def test_a_late_write_is_found_where_the_model_garbles_what_it_reads(
    start_drill: DrillStarter, ask: Ask
) -> None:
    drill = start_drill("--scenario", "late-write", "--style", "garbage")
    code, checks = ask(drill, "abort", *ACCEPTED, "--budget-tokens", "60000")
    assert code == 1
    assert {"reference": "corruption", "own_nonce": "corruption"}.items() <= failed(checks).items()
    assert checks["foreign_marker"]["verdict"] != "pass"


def test_pages_that_are_held_survive_clients_that_leave_and_a_kept_round_says_so_too(
    start_drill: DrillStarter, ask: Ask, ask_again: Callable[[str], Checks]
) -> None:
    drill = start_drill("--scenario", "late-write", "--guard", "deferred-release")
    code, checks = ask(drill, "abort", *ACCEPTED, "--budget-tokens", "60000")
    assert (code, required(checks)) == (0, {"pass"}), checks
    again = ask_again("abort")
    assert {name: one["verdict"] for name, one in again.items()} == {
        name: one["verdict"] for name, one in checks.items()
    }


@pytest.mark.slow
def test_a_late_write_is_a_leak_that_names_tenant_request_and_page(
    start_drill: DrillStarter, ask: Ask
) -> None:
    drill = start_drill("--scenario", "late-write")
    code, checks = ask(drill, "abort", *ACCEPTED, "--budget-tokens", "60000")
    assert code == 1
    assert failed(checks)["foreign_marker"] == "leak"
    figures = checks["foreign_marker"]["figures"]
    assert figures["tenant"] == "tenant-a"
    assert 0 <= figures["page"] <= figures["length"] // drill.page_size


@pytest.mark.parametrize("style", ["plain", "garbage"])
def test_pages_that_are_freed_too_early_are_found_among_many(
    start_drill: DrillStarter, ask: Ask, style: str
) -> None:
    drill = start_drill("--scenario", "page-lifetime", "--style", style)
    code, checks = ask(drill, "concurrency", *ACCEPTED, "--budget-tokens", "70000")
    assert code == 1, checks
    assert "corruption" in failed(checks).values()
    assert "over_limit_served" not in failed(checks).values()


def test_pages_that_are_held_until_they_are_read_pass_among_many(
    start_drill: DrillStarter, ask: Ask, ask_again: Callable[[str], Checks]
) -> None:
    drill = start_drill("--scenario", "page-lifetime", "--guard", "deferred-release")
    code, checks = ask(drill, "concurrency", *ACCEPTED, "--budget-tokens", "70000")
    assert (code, required(checks)) == (0, {"pass"}), checks
    assert checks["order"]["verdict"] == "not_exercised"
    assert "--budget-tokens" in checks["order"]["reason"]
    again = ask_again("concurrency")
    assert {name: one["verdict"] for name, one in again.items()} == {
        name: one["verdict"] for name, one in checks.items()
    }


@pytest.mark.parametrize("plan", ["abort", "concurrency", "salt"])
def test_a_pair_out_of_rotation_is_probed_directly_without_a_grant(
    start_drill: DrillStarter, ask: Ask, plan: str
) -> None:
    drill = start_drill(
        "--scenario", "salt-ignored", "--guard", "salt", "--engine-version", "0.5.23"
    )
    cordon(drill)
    nodes = [word for node in drill.nodes for word in (f"--{node['role']}", node["url"])]
    code, checks = ask(drill, plan, "--via", "pair", *nodes)
    assert (code, required(checks)) == (0, {"pass"}), checks


@pytest.mark.parametrize("plan", ["abort", "concurrency"])
def test_several_at_once_are_not_sent_in_rotation_without_a_persons_word(
    start_drill: DrillStarter, ask: Ask, plan: str
) -> None:
    drill = start_drill("--scenario", "healthy")
    code, checks = ask(drill, plan, "--budget-tokens", "60000")
    assert (code, required(checks)) == (2, {"not_exercised"})
    assert any("--accept-exposure" in one["reason"] for one in checks.values())


@pytest.mark.slow
def test_a_slow_node_is_named_by_pair_and_is_no_leak(start_drill: DrillStarter, ask: Ask) -> None:
    figures = ("--prefill-pool", "2560", "--decode-pool", "2560", "--context", "2048")
    drill = start_drill("--scenario", "slow-node", *figures)
    with httpx.Client(base_url=drill.control) as control:
        lag = {"prefill_speed": 0, "transfer_s": 0.3}
        control.post("/nodes/prefill-2/restart", json=lag).raise_for_status()
    code, checks = ask(drill, "reference", "--via", "pair", "--budget-tokens", "5000000")
    pace = checks["pace"]
    assert (pace["verdict"], pace["kind"]) == ("fail", "timing")
    assert "prefill-2" in pace["target"]
    assert failed(checks) == {}
    assert code == 0
