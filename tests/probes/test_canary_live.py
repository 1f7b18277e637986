"""The verb canary on the drill: what every scenario must come to, and figures of no scenario."""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from probes.verbs.canary import main
from probes.verbs.judge import main as judge
from tests.deployments import DrillCluster, DrillStarter

Canary = Callable[..., tuple[int, dict[str, Any]]]

ACCEPT = ("--accept-exposure", "rehearsal on an idle cluster", "--as", "Ada")
GRANT = ("--budget-tokens", "2000000")


@pytest.fixture
def canary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Canary:
    """Run the verb against a drill; answer its exit code and what it printed."""

    def run(drill: DrillCluster, *options: str) -> tuple[int, dict[str, Any]]:
        files = []
        for letter, tenant in zip("ab", drill.tenants, strict=True):
            path = tmp_path / letter
            path.write_text(tenant["api_key"] + "\n")
            files += [f"--tenant-{letter}-key-file", str(path)]
        given = ["--engine", "sglang", "--target", drill.router, "--model", drill.model]
        capsys.readouterr()
        code = main([*given, *files, *options, "--json"])
        said = capsys.readouterr()
        for tenant in drill.tenants:
            assert tenant["api_key"] not in said.out + said.err
        return code, json.loads(said.out)

    return run


def checks_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["check"].removeprefix("boundary."): one for one in document["checks"]}


def rows_at(document: dict[str, Any], length: int) -> list[dict[str, Any]]:
    rows = document["rounds"][0]["rows"]
    return [row for row in rows if row["length"] == length and row["part"] == "ask"]


def set_style(drill: DrillCluster, style: str) -> None:
    request = urllib.request.Request(  # noqa: S310 - the drill's own address
        f"{drill.control}/style",
        data=json.dumps({"style": style}).encode(),
        headers={"content-type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request) as reply:  # noqa: S310 - as above
        assert reply.status == 200


def cordon(drill: DrillCluster) -> None:
    with urllib.request.urlopen(f"{drill.router}/workers") as reply:  # noqa: S310 - as above
        workers = json.load(reply)["workers"]
    for worker in workers:
        url = f"{drill.router}/workers/{worker['id']}"
        with urllib.request.urlopen(  # noqa: S310 - as above
            urllib.request.Request(url, method="DELETE")  # noqa: S310 - as above
        ) as reply:
            assert reply.status == 202


def node_options(drill: DrillCluster) -> list[str]:
    return [word for node in drill.nodes for word in (f"--{node['role']}", node["url"])]


def test_september_is_refused_without_acceptance_and_leaks_with_it(
    start_drill: DrillStarter, canary: Canary
) -> None:
    drill = start_drill("--scenario", "september")
    code, document = canary(drill, *GRANT)
    assert code == 2
    assert document["cost"]["requests"] == 0
    code, document = canary(drill, *GRANT, *ACCEPT)
    assert code == 1
    leak = checks_of(document)["foreign_marker"]
    assert (leak["verdict"], leak["kind"]) == ("fail", "leak")
    assert leak["figures"]["tenant"] == "tenant-a"
    assert leak["figures"]["first_refused"] == 10_618
    fills = [row for row in document["rounds"][0]["rows"] if row["part"] == "fill"]
    assert leak["figures"]["request"] in {row["request"] for row in fills}
    assert 0 <= leak["figures"]["page"] < 10_624 // 64
    assert document["rounds"][0]["accepted_by"] == "Ada"


def test_september_in_garbage_fires_nonce_and_refusal_alone(
    start_drill: DrillStarter, canary: Canary
) -> None:
    drill = start_drill("--scenario", "september")
    set_style(drill, "garbage")
    code, document = canary(drill, *GRANT, *ACCEPT)
    assert code == 1
    failed = {name for name, one in checks_of(document).items() if one["verdict"] == "fail"}
    assert failed == {"own_nonce", "refusal", "answers_alike"}


@pytest.mark.parametrize("style", ["plain", "garbage"])
def test_healthy_passes_and_costs_what_it_said(
    start_drill: DrillStarter, canary: Canary, style: str
) -> None:
    drill = start_drill("--scenario", "healthy")
    set_style(drill, style)
    code, refused = canary(drill)
    assert code == 2
    needed = refused["cost"]["estimated_tokens"]
    assert f"--budget-tokens {needed}" in refused["checks"][0]["reason"]
    code, document = canary(drill, "--budget-tokens", str(needed - 1))
    assert code == 2
    code, document = canary(drill, "--budget-tokens", str(needed))
    assert code == 0
    assert document["cost"]["spent_tokens"] <= needed


def test_equal_pools_leave_l_out_and_refuse_f(start_drill: DrillStarter, canary: Canary) -> None:
    drill = start_drill("--scenario", "equal-pools")
    code, document = canary(drill, *GRANT)
    assert code == 2
    (last,) = rows_at(document, 10_617)
    assert last["outcome"] == "not_exercised"
    assert "hang band" in last["reason"]
    refused = rows_at(document, 10_618)
    assert {row["outcome"] for row in refused} == {"refused"}
    assert {row["streamed"] for row in refused} == {False, True}
    code, _ = canary(drill, *GRANT)
    assert code == 2, "the first round must not have left a node hanging"


def test_a_pair_in_rotation_is_refused_and_a_cordoned_one_is_probed(
    start_drill: DrillStarter, canary: Canary
) -> None:
    drill = start_drill("--scenario", "september")
    options = ["--via", "pair", *node_options(drill)]
    code, document = canary(drill, *options, *GRANT)
    assert code == 2
    assert document["cost"]["requests"] == 0
    cordon(drill)
    code, document = canary(drill, *options)
    assert code == 1
    assert document["rounds"][0]["cordoned"] is True
    assert checks_of(document)["foreign_marker"]["verdict"] == "fail"
    code, document = canary(drill, *GRANT, *ACCEPT)
    assert code == 2, "a router without workers reaches nothing"


def test_a_fixed_pair_with_unequal_limits_is_no_leak_but_unavailable(
    start_drill: DrillStarter, canary: Canary
) -> None:
    drill = start_drill("--scenario", "september", "--engine-version", "0.5.22")
    cordon(drill)
    code, document = canary(drill, "--via", "pair", *node_options(drill))
    assert code == 1
    checks = checks_of(document)
    failed = {name: one["kind"] for name, one in checks.items() if one["verdict"] == "fail"}
    assert failed == {"answered": "availability"}


def test_pairs_come_from_the_router_where_none_is_named(
    start_drill: DrillStarter, canary: Canary
) -> None:
    drill = start_drill("--scenario", "healthy", "--prefills", "2")
    code, document = canary(drill, "--via", "pair", *GRANT)
    assert code == 0
    targets = [one["target"] for one in document["rounds"]]
    assert targets == ["pair prefill-1/decode-1", "pair prefill-2/decode-1"]


def test_a_router_that_cannot_be_read_means_refuse(
    start_drill: DrillStarter, canary: Canary, tmp_path: Path
) -> None:
    key = tmp_path / "router-key"
    key.write_text("of-the-control-plane")
    drill = start_drill("--scenario", "healthy", "--router-key-file", str(key))
    code, document = canary(drill, *GRANT, *ACCEPT, *node_options(drill))
    assert code == 2
    assert "cannot be read" in document["checks"][0]["reason"]
    code, _ = canary(drill, *GRANT, "--router-key-file", str(key))
    assert code == 0


@pytest.mark.parametrize("seed", range(4))
def test_figures_of_no_scenario_leak_where_there_is_a_band(
    start_drill: DrillStarter, canary: Canary, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - figures of a test, not keys
    page = [1, 16, 64, 37][seed]
    context = chance.randrange(3_000, 9_000)
    small = chance.randrange(1_200, 2_400) // page * page
    large = (context + 600 + page) // page * page
    figures = {"--context": context, "--page-size": page, "--prefill-pool": small}
    options = [str(word) for pair in figures.items() for word in pair]
    drill = start_drill("--engine-version", "0.5.19", *options, "--decode-pool", str(large))
    code, document = canary(drill, *GRANT, *ACCEPT)
    assert code == 1
    leak = checks_of(document)["foreign_marker"]
    assert leak["verdict"] == "fail"
    assert leak["figures"]["tenant"] == "tenant-a"
    assert leak["figures"]["first_refused"] == small - 6
    assert 0 <= leak["figures"]["page"] <= small // page
    pools = ("--prefill-pool", str(large))
    fixed = start_drill("--engine-version", "0.5.21", *options, *pools, "--decode-pool", str(large))
    code, _ = canary(fixed, *GRANT)
    assert code == 0


@pytest.mark.parametrize("scenario", ["september", "healthy", "equal-pools", "page-lifetime"])
def test_a_saved_run_is_judged_as_it_was(
    start_drill: DrillStarter,
    canary: Canary,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    scenario: str,
) -> None:
    drill = start_drill("--scenario", scenario)
    plans = ["--plan", "boundary", "--plan", "reference", "--plan", "churn"]
    _, document = canary(drill, *GRANT, *ACCEPT, *plans)
    assert len(document["rounds"]) == 3
    file = tmp_path / "capture.json"
    file.write_text(json.dumps({"nodes": [], "canary": document}))
    judge([str(file), "--json"])
    again = json.loads(capsys.readouterr().out)["checks"]
    assert {(one["check"], one["target"]): one["verdict"] for one in document["checks"]} == {
        (one["check"], one["target"]): one["verdict"] for one in again if "." in one["check"]
    }


def test_pages_that_are_freed_too_early_are_seen_without_a_boundary(
    start_drill: DrillStarter, canary: Canary
) -> None:
    drill = start_drill("--scenario", "page-lifetime")
    set_style(drill, "garbage")
    for plan in ("reference", "churn"):
        code, document = canary(drill, *GRANT, *ACCEPT, "--plan", plan)
        assert code == 1
        checks = {one["check"]: one for one in document["checks"]}
        assert checks[f"{plan}.reference"]["verdict"] == "fail"
        assert checks[f"{plan}.reference"]["kind"] == "corruption"
    guarded = start_drill("--scenario", "page-lifetime", "--guard", "deferred-release")
    for plan in ("reference", "churn"):
        code, _ = canary(guarded, *GRANT, *ACCEPT, "--plan", plan)
        assert code == 0
