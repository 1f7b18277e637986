"""Canary rounds against real SGLang, out of rotation.

The model is random: it repeats nothing. So no round can show that a prompt was read, and none may
claim a leak that nobody saw; what was served past the limit does not need a model that speaks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from common.exits import EXIT_FAIL, EXIT_INCONCLUSIVE
from tests.engines.conftest import SglangLane
from tests.engines.lane.servers import ROOT, Lane, Said

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

PAIR = "pair prefill-1/decode-1"
GRANT = 100_000


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, ...]:
    """Answer the options that name both tenants' keys."""
    words: list[str] = []
    for letter in "ab":
        file = tmp_path / f"tenant-{letter}.key"
        file.write_text(f"made-up-key-of-{letter}", encoding="ascii")
        words += [f"--tenant-{letter}-key-file", str(file)]
    return tuple(words)


@contextmanager
def out_of_rotation(lane: Lane) -> Iterator[None]:
    """Hold both nodes out of the router, and put them back in as they were."""
    program = str(Path(__file__).with_name("out_of_rotation.py"))
    process = subprocess.Popen(  # noqa: S603 - our own program
        lane.room.on_its_network([sys.executable, program, lane.urls["router"]]),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "out\n"
    try:
        yield
    finally:
        rest, _ = process.communicate()
    assert (process.returncode, rest) == (0, "back\n")


def probe(lane: Lane, keys: tuple[str, ...]) -> Said:
    """Send one boundary round to the pair itself."""
    nodes = ("--prefill", lane.urls["prefill"], "--decode", lane.urls["decode"])
    way = ("--target", lane.urls["router"], "--via", "pair", *nodes)
    grant = ("--model", lane.model, "--budget-tokens", GRANT)
    return lane.verb("canary", "--engine", "sglang", *way, *grant, *keys, "--json")


def assert_idle(lane: Lane) -> None:
    """Check that both nodes answer and that nothing waits in either."""
    for name in ("prefill", "decode"):
        assert lane.ask("GET", f"{lane.urls[name]}/health")[0] == 200
        _, text = lane.ask("GET", f"{lane.urls[name]}/v1/loads")
        load = json.loads(text)["loads"][0]
        waiting = [
            figure for place, figure in load["disaggregation"].items() if place.endswith("_reqs")
        ]
        assert [*waiting, load["num_running_reqs"], load["num_waiting_reqs"]] == [0] * (
            len(waiting) + 2
        )


class TestUnequalPools:
    """0.5.19 with prefill at 1,024 and decode at 4,096 serves what prefill refuses."""

    @pytest.fixture
    def lane(self, sglang_lane: SglangLane) -> Lane:
        return sglang_lane("0.5.19", 1024, 4096)

    def test_what_prefill_refuses_is_served_and_seen(
        self, lane: Lane, keys: tuple[str, ...]
    ) -> None:
        with out_of_rotation(lane):
            said = probe(lane, keys)
            assert_idle(lane)

        refusal = said.check("boundary.refusal", PAIR)
        assert (refusal["verdict"], refusal["kind"]) == ("fail", "over_limit_served")
        assert refusal["figures"]["length"] == refusal["figures"]["first_refused"] == 1018
        assert refusal["figures"]["prompt_tokens"] == 1018
        assert said.check("boundary.foreign_marker", PAIR)["verdict"] == "inconclusive"
        assert said.check("boundary.own_nonce", PAIR)["verdict"] == "inconclusive"
        assert said.code == EXIT_FAIL

    def test_an_exposed_pair_in_rotation_is_not_probed(
        self, lane: Lane, keys: tuple[str, ...]
    ) -> None:
        said = probe(lane, keys)

        assert {one["verdict"] for one in said.document["checks"]} == {"not_exercised"}
        assert said.document["cost"]["requests"] == 0
        assert said.code == EXIT_INCONCLUSIVE


class TestEqualPools:
    """0.5.19 with 1,024 on both sides refuses what it must."""

    @pytest.fixture
    def lane(self, sglang_lane: SglangLane) -> Lane:
        return sglang_lane("0.5.19", 1024, 1024)

    def test_what_is_refused_passes_and_no_leak_is_claimed(
        self, lane: Lane, keys: tuple[str, ...]
    ) -> None:
        with out_of_rotation(lane):
            said = probe(lane, keys)
            assert_idle(lane)

        verdicts = {one["check"]: one["verdict"] for one in said.document["checks"]}
        assert verdicts["boundary.refusal"] == "pass"
        assert verdicts["boundary.foreign_marker"] == "inconclusive"
        assert "fail" not in verdicts.values()
        assert said.code == EXIT_INCONCLUSIVE

    def test_a_router_serves_again_once_its_nodes_are_back(self, lane: Lane) -> None:
        with out_of_rotation(lane):
            empty = lane.ask("GET", f"{lane.urls['router']}/readiness")[0]
        body = {"input_ids": [7, 8, 9, 10], "sampling_params": {"max_new_tokens": 1}}
        status, text = lane.ask("POST", f"{lane.urls['router']}/generate", body)

        assert empty == HTTPStatus.SERVICE_UNAVAILABLE
        assert status == HTTPStatus.OK, text
        assert json.loads(text)["meta_info"]["prompt_tokens"] == 4
