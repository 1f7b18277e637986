"""The plan proxy_aborts by the real verb: on the drill both ways, and before real routers."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from probes.canary import departing
from probes.verbs.canary import main
from probes.verbs.judge import main as judge_verb
from tests.deployments import DrillCluster, DrillStarter
from tests.fleet.real_routers import need, running, split_arguments

#: A prompt takes a second or more to compute, and decode needs longer for its answer.
SLOW = ("--scenario", "healthy", "--prefill-speed", "200", "--token-ms", "15")

Ask = Callable[..., tuple[int, dict[str, dict[str, Any]], list[dict[str, Any]]]]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run the verb; answer its exit code, the checks by name, and the rows of the round."""

    def run(
        drill: DrillCluster, *options: str, target: str = ""
    ) -> tuple[int, dict[str, dict[str, Any]], list[dict[str, Any]]]:
        files = []
        for letter, tenant in zip("ab", drill.tenants, strict=True):
            path = tmp_path / letter
            path.write_text(tenant["api_key"] + "\n")
            files += [f"--tenant-{letter}-key-file", str(path)]
        given = ["--engine", "sglang", "--target", target or drill.router, "--model", drill.model]
        capsys.readouterr()
        code = main([*given, *files, "--plan", "proxy_aborts", *options, "--json"])
        document = json.loads(capsys.readouterr().out)
        checks = {one["check"]: one for one in document["checks"]}
        (tmp_path / "capture.json").write_text(
            json.dumps({"nodes": [], "canary": {"rounds": document["rounds"]}})
        )
        return code, checks, document["rounds"][0]["rows"]

    return run


def switch(drill: DrillCluster, aborts: str) -> None:
    request = urllib.request.Request(  # noqa: S310 - the drill's own address
        f"{drill.control}/router",
        data=json.dumps({"aborts": aborts}).encode(),
        headers={"content-type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request) as reply:  # noqa: S310 - as above
        assert reply.status == 200


def test_a_router_that_ends_what_is_under_way_fails_until_it_stops_doing_so(
    start_drill: DrillStarter, ask: Ask
) -> None:
    drill = start_drill(*SLOW)
    code, checks, rows = ask(drill)
    assert (code, checks["proxy_aborts"]["verdict"]) == (1, "fail")
    assert "prefill and decode" in checks["proxy_aborts"]["reason"]
    figures = checks["proxy_aborts"]["figures"]
    assert (figures["prefill_aborted"], figures["decode_aborted"]) == (1, 1)
    assert figures["first_token_s"] is None
    assert [row["outcome"] for row in rows] == ["answered", "left", "left"]
    # In rotation without a grant: 5 % of a pool of 20,480 tokens for the whole round.
    assert sum(row["length"] + row["max_new_tokens"] for row in rows) <= 1_024

    switch(drill, "first-token")
    code, checks, _ = ask(drill)
    assert (code, checks["proxy_aborts"]["verdict"]) == (0, "pass"), checks
    assert checks["proxy_aborts.let_go"]["verdict"] == "pass", checks
    assert checks["proxy_aborts"]["figures"]["decode_aborted"] == 1
    assert checks["proxy_aborts"]["figures"]["first_token_s"] > figures["noticed_s"]


def test_a_router_that_tells_nobody_passes_and_shows_what_it_costs(
    start_drill: DrillStarter, ask: Ask
) -> None:
    drill = start_drill(*SLOW, "--router-aborts", "none")
    code, checks, _ = ask(drill)
    assert (code, checks["proxy_aborts"]["verdict"]) == (0, "pass"), checks
    let_go = checks["proxy_aborts.let_go"]
    assert (let_go["verdict"], let_go["required"], let_go["kind"]) == (
        "fail",
        False,
        "availability",
    )


def test_one_leg_alone_leaves_the_other_holding_pages(
    start_drill: DrillStarter, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departing, "SETTLE_S", 1.0)
    drill = start_drill(*SLOW, "--router-aborts", "prefill")
    code, checks, rows = ask(drill)
    assert (code, checks["proxy_aborts"]["verdict"]) == (1, "fail")
    assert "prefill alone" in checks["proxy_aborts"]["reason"]
    assert checks["proxy_aborts.let_go"]["verdict"] == "fail"
    assert "decode still has 1 of its requests" in checks["proxy_aborts.let_go"]["reason"]
    # Nothing more is sent while a node is held up.
    assert rows[-1]["outcome"] == "not_exercised"


def test_a_router_that_ends_decode_alone_fails(
    start_drill: DrillStarter, ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks, _ = ask(start_drill(*SLOW, "--router-aborts", "decode"))
    assert (code, checks["proxy_aborts"]["verdict"]) == (1, "fail")
    assert "decode alone" in checks["proxy_aborts"]["reason"]
    # The saved round comes to the same elsewhere.
    assert judge_verb([str(tmp_path / "capture.json"), "--json"]) == 1
    again = json.loads(capsys.readouterr().out)["checks"]
    assert [one["reason"] for one in again if one["check"] == "proxy_aborts"] == [
        checks["proxy_aborts"]["reason"]
    ]


def test_an_engine_that_computes_at_once_leaves_nothing_to_end(
    start_drill: DrillStarter, ask: Ask
) -> None:
    code, checks, rows = ask(start_drill("--scenario", "healthy", "--router-aborts", "none"))
    assert (code, checks["proxy_aborts"]["verdict"]) == (2, "not_exercised")
    assert "too short to leave half-way" in checks["proxy_aborts"]["reason"]
    assert [row["outcome"] for row in rows] == ["answered", "not_exercised", "not_exercised"]


def test_an_exposed_pair_and_one_that_frees_pages_at_once_are_refused(
    start_drill: DrillStarter, ask: Ask
) -> None:
    for scenario, said in (("september", "not safe to probe"), ("equal-pools", "deferred_release")):
        code, checks, rows = ask(start_drill("--scenario", scenario))
        assert (code, rows) == (2, [])
        assert checks["proxy_aborts"]["verdict"] == "not_exercised"
        assert said in checks["proxy_aborts"]["reason"]


def test_another_users_requests_make_it_inconclusive(
    start_drill: DrillStarter, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departing, "SETTLE_S", 1.0)
    drill = start_drill(*SLOW, "--router-aborts", "none")
    stop = threading.Event()

    def use() -> None:
        body = {"text": "someone else", "sampling_params": {"max_new_tokens": 4}}
        key = drill.tenants[0]["api_key"]
        while not stop.is_set():
            request = urllib.request.Request(  # noqa: S310 - the drill's own address
                f"{drill.router}/generate",
                data=json.dumps(body).encode(),
                headers={"content-type": "application/json", "authorization": f"Bearer {key}"},
            )
            with urllib.request.urlopen(request) as reply:  # noqa: S310 - as above
                reply.read()

    user = threading.Thread(target=use)
    user.start()
    try:
        code, checks, _ = ask(drill)
    finally:
        stop.set()
        user.join()
    assert code == 2
    assert checks["proxy_aborts"]["verdict"] == "inconclusive"


@pytest.mark.parametrize("kind", ["sglang-router", "smg"])
def test_real_routers_end_what_is_under_way(
    start_drill: DrillStarter,
    ask: Ask,
    free_ports: Callable[[], int],
    tmp_path: Path,
    kind: str,
) -> None:
    need(kind)
    drill = start_drill(*SLOW)
    with running(kind, free_ports(), split_arguments(kind, drill.nodes), tmp_path / "log") as url:
        code, checks, _ = ask(drill, target=url)
    assert (code, checks["proxy_aborts"]["verdict"]) == (1, "fail")
    assert "prefill and decode" in checks["proxy_aborts"]["reason"]
