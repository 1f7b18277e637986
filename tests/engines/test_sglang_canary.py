"""Canary rounds against real SGLang, out of rotation.

The model is random: it repeats nothing. So no round can show that a prompt was read, and none may
claim a leak that nobody saw; what was served past the limit does not need a model that speaks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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
ROUTER = "router"
ACCEPTED = ("--accept-exposure", "a lane of a test, nobody else asks", "--as", "tests/engines")
#: How soon decode lets go of a prompt whose client has left. Unit: seconds.
LETTING_GO_S = 60.0


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


def probe(lane: Lane, keys: tuple[str, ...], *, plan: str = "boundary") -> Said:
    """Send one round to the pair itself."""
    nodes = ("--prefill", lane.urls["prefill"], "--decode", lane.urls["decode"])
    return ask_for(lane, keys, "--via", "pair", *nodes, "--plan", plan)


def probe_by_router(lane: Lane, keys: tuple[str, ...], *more: str) -> Said:
    """Send one boundary round through the router, as a customer's requests come."""
    return ask_for(lane, keys, "--via", "router", *more)


def ask_for(lane: Lane, keys: tuple[str, ...], *way: str) -> Said:
    fixed = ("--engine", "sglang", "--target", lane.urls["router"], *way)
    grant = ("--model", lane.model, "--budget-tokens", GRANT)
    return lane.verb("canary", *fixed, *grant, *keys, "--json")


def verdicts_of(said: Said) -> dict[str, str]:
    return {one["check"]: one["verdict"] for one in said.document["checks"]}


def failed(said: Said) -> dict[str, str]:
    """Answer the checks that failed, and the kind of each."""
    checks = said.document["checks"]
    return {one["check"]: one["kind"] for one in checks if one["verdict"] == "fail"}


def in_hand(lane: Lane) -> dict[str, int]:
    """Answer every place of both nodes where something runs or waits, and how much."""
    found: dict[str, int] = {}
    for name in ("prefill", "decode"):
        assert lane.ask("GET", f"{lane.urls[name]}/health")[0] == HTTPStatus.OK
        load = json.loads(lane.ask("GET", f"{lane.urls[name]}/v1/loads")[1])["loads"][0]
        places = {"running": load["num_running_reqs"], "waiting": load["num_waiting_reqs"]}
        queues = load["disaggregation"].items()
        places |= {place: count for place, count in queues if place.endswith("_reqs")}
        found |= {f"{name} {place}": count for place, count in places.items() if count}
    return found


def assert_idle(lane: Lane, *, within_s: float = 0.0) -> None:
    """Check that both nodes answer and that nothing waits in either, in the end."""
    deadline = time.monotonic() + within_s
    while (found := in_hand(lane)) and time.monotonic() < deadline:
        pass
    assert found == {}


class TestUnequalPools:
    """0.5.19 with prefill at 1,024 and decode at 4,096 serves what prefill refuses."""

    @pytest.fixture
    def lane(self, sglang_lane: SglangLane) -> Lane:
        return sglang_lane("0.5.19", 1024, 4096)

    def test_the_pair_client_sees_it_by_two_oracles(
        self, lane: Lane, keys: tuple[str, ...]
    ) -> None:
        with out_of_rotation(lane):
            said = probe(lane, keys)
            assert_idle(lane)

        self.assert_seen(said, PAIR)

    def test_a_client_of_the_router_sees_it_by_the_same_two(
        self, lane: Lane, keys: tuple[str, ...]
    ) -> None:
        said = probe_by_router(lane, keys, *ACCEPTED)

        assert_idle(lane)
        self.assert_seen(said, ROUTER)
        assert said.document["rounds"][0]["accepted_by"] == ACCEPTED[-1]

    def assert_seen(self, said: Said, target: str) -> None:
        assert said.code == EXIT_FAIL
        assert failed(said) == {
            "boundary.refusal": "over_limit_served",
            "boundary.answers_alike": "over_limit_served",
        }
        refusal = said.check("boundary.refusal", target)
        assert refusal["figures"]["length"] == refusal["figures"]["first_refused"] == 1018
        assert refusal["figures"]["prompt_tokens"] == 1018
        assert said.check("boundary.answers_alike", target)["figures"]["answers"] >= 3
        # Random weights repeat nothing: no leak is claimed that nobody saw.
        assert said.check("boundary.foreign_marker", target)["verdict"] == "inconclusive"
        assert said.check("boundary.own_nonce", target)["verdict"] == "inconclusive"

    def test_within_the_limit_answers_are_like_those_alone(
        self, lane: Lane, keys: tuple[str, ...]
    ) -> None:
        with out_of_rotation(lane):
            said = probe(lane, keys, plan="reference")
            assert_idle(lane)

        assert said.check("reference.reference", PAIR)["verdict"] == "pass"
        assert failed(said) == {}

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

        self.assert_clean(said)

    def test_a_client_of_the_router_sees_the_same(self, lane: Lane, keys: tuple[str, ...]) -> None:
        said = probe_by_router(lane, keys)

        assert_idle(lane)
        self.assert_clean(said)

    def assert_clean(self, said: Said) -> None:
        verdicts = verdicts_of(said)
        assert failed(said) == {}
        assert verdicts["boundary.refusal"] == verdicts["boundary.answers_alike"] == "pass"
        assert verdicts["boundary.foreign_marker"] == "inconclusive"
        answered = said.check("boundary.answered")
        # L itself would stay at the head of decode's queue, so it is not sent, and that is said.
        assert answered["verdict"] == "not_exercised"
        assert "hang band of prefill-1/decode-1, lengths 1,009 to 1,017" in answered["reason"]
        assert said.code == EXIT_INCONCLUSIVE

    def test_the_same_prompt_is_answered_the_same_again(
        self, lane: Lane, keys: tuple[str, ...]
    ) -> None:
        with out_of_rotation(lane):
            said = probe(lane, keys, plan="reference")
            assert_idle(lane)

        verdicts = verdicts_of(said)
        assert verdicts["reference.reference"] == verdicts["reference.together"] == "pass"
        assert verdicts["reference.answered"] == "pass"
        assert failed(said) == {}
        assert "did not repeat a code" in said.check("reference.own_nonce")["reason"]
        assert said.code == EXIT_INCONCLUSIVE

    def test_many_at_once_accuse_nobody(self, lane: Lane, keys: tuple[str, ...]) -> None:
        with out_of_rotation(lane):
            said = probe(lane, keys, plan="concurrency")
            assert_idle(lane)

        assert failed(said) == {}
        assert said.document["cost"]["requests"] > 0
        assert said.code == EXIT_INCONCLUSIVE

    def test_a_router_serves_again_once_its_nodes_are_back(self, lane: Lane) -> None:
        with out_of_rotation(lane):
            empty = lane.ask("GET", f"{lane.urls['router']}/readiness")[0]
        body = {"input_ids": [7, 8, 9, 10], "sampling_params": {"max_new_tokens": 1}}
        status, text = lane.ask("POST", f"{lane.urls['router']}/generate", body)

        assert empty == HTTPStatus.SERVICE_UNAVAILABLE
        assert status == HTTPStatus.OK, text
        assert json.loads(text)["meta_info"]["prompt_tokens"] == 4


class TestUnequalPoolsOfARepairedVersion:
    """0.5.23 with 1,024 and 4,096: prefill refuses, nobody tells decode, nothing leaks."""

    @pytest.fixture
    def lane(self, sglang_lane: SglangLane) -> Lane:
        return sglang_lane("0.5.23", 1024, 4096)

    def test_the_pair_client_sees_that_decode_is_not_told(
        self, lane: Lane, keys: tuple[str, ...]
    ) -> None:
        with out_of_rotation(lane):
            said = probe(lane, keys)
            assert_idle(lane, within_s=LETTING_GO_S)

        self.assert_unavailable(said)
        reason = said.check("boundary.answered", PAIR)["reason"]
        assert "prefill answered with status 400 and decode not at all" in reason

    def test_a_client_of_the_router_waits_in_vain(self, lane: Lane, keys: tuple[str, ...]) -> None:
        said = probe_by_router(lane, keys, *ACCEPTED)

        assert_idle(lane, within_s=LETTING_GO_S)
        self.assert_unavailable(said)
        assert "got no answer in 30" in said.check("boundary.answered", ROUTER)["reason"]

    def assert_unavailable(self, said: Said) -> None:
        assert failed(said) == {"boundary.answered": "availability"}
        assert said.check("boundary.answered")["figures"]["length"] == 1018
        assert said.code == EXIT_FAIL
