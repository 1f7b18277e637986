"""Gates over real SGLang, read from the running engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.exits import EXIT_FAIL, EXIT_PASS
from tests.engines.conftest import SglangLane
from tests.engines.lane.servers import Lane, Said

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

PAIR = "prefill-1/decode-1"


def gate(lane: Lane) -> Said:
    """Judge the two nodes by their addresses."""
    nodes = ("--prefill", lane.urls["prefill"], "--decode", lane.urls["decode"])
    return lane.verb("gate", "--engine", "sglang", *nodes, "--json")


def failing(said: Said) -> set[str]:
    """Answer the names of the required checks that do not pass."""
    return {
        one["check"]
        for one in said.document["checks"]
        if one["required"] and one["verdict"] != "pass"
    }


def ordered(document: dict[str, Any]) -> list[str]:
    """Answer the checks in an order that does not depend on whom the router lists first."""
    return sorted(map(str, document["checks"]))


class TestUnequalPools:
    """0.5.19 with prefill at 1,024, decode at 4,096: the fault as it was found.

    Prefill refuses from 1,024 - 6 on, decode from 4,096 - 6 on, and both promise 4,096.
    """

    @pytest.fixture
    def lane(self, sglang_lane: SglangLane) -> Lane:
        return sglang_lane("0.5.19", 1024, 4096)

    def test_the_band_between_both_limits_fails(self, lane: Lane) -> None:
        said = gate(lane)

        exposure = said.check("pair_exposure", PAIR)
        assert (said.code, exposure["verdict"]) == (EXIT_FAIL, "fail")
        assert exposure["figures"]["band"] == [1018, 4089]

    def test_prefill_refuses_what_the_context_promises(self, lane: Lane) -> None:
        pool = gate(lane).check("pool_covers_context", "prefill-1")

        assert pool["verdict"] == "fail"
        assert pool["figures"]["pool"] == 1024
        assert pool["figures"]["last_admitted"] == 1017
        assert pool["figures"]["danger_band"] == [1018, 4095]

    def test_a_pool_as_large_as_the_context_lacks_headroom(self, lane: Lane) -> None:
        pool = gate(lane).check("pool_covers_context", "decode-1")

        assert pool["verdict"] == "fail"
        assert (pool["figures"]["pool"], pool["figures"]["required"]) == (4096, 5120)
        assert pool["figures"]["danger_band"] is None

    def test_the_router_tells_both_nodes(self, lane: Lane) -> None:
        said = lane.verb("gate", "--engine", "sglang", "--router", lane.urls["router"], "--json")

        assert ordered(said.document) == ordered(gate(lane).document)

    def test_a_capture_is_judged_like_the_live_nodes(self, lane: Lane, tmp_path: Path) -> None:
        file = tmp_path / "capture.json"
        nodes = ("--prefill", lane.urls["prefill"], "--decode", lane.urls["decode"])

        saved = lane.verb("capture", "--engine", "sglang", *nodes, "-o", file)
        said = lane.verb("judge", file, "--json")

        assert saved.code == EXIT_PASS, saved.errors
        assert said.document == gate(lane).document

    def test_a_second_look_is_no_drift(self, lane: Lane, tmp_path: Path) -> None:
        files = (tmp_path / "before.json", tmp_path / "after.json")
        for file in files:
            done = lane.verb(
                "capture", "--engine", "sglang", "--router", lane.urls["router"], "-o", file
            )
            assert done.code == EXIT_PASS, done.errors

        said = lane.verb("judge", files[1], "--before", files[0], "--json")

        drift = [one for one in said.document["checks"] if one["check"] == "drift"]
        assert {one["target"] for one in drift} == {"prefill-1", "decode-1"}
        assert {one["verdict"] for one in drift} == {"pass"}


class TestEqualPools:
    """0.5.19 with 1,024 on both sides: both refuse the same, and far too early."""

    @pytest.fixture
    def lane(self, sglang_lane: SglangLane) -> Lane:
        return sglang_lane("0.5.19", 1024, 1024)

    def test_equal_limits_leave_no_band_and_small_pools_fail(self, lane: Lane) -> None:
        said = gate(lane)

        exposure = said.check("pair_exposure", PAIR)
        assert (exposure["verdict"], exposure["figures"]["band"]) == ("pass", None)
        assert said.check("pool_covers_context", "prefill-1")["verdict"] == "fail"
        assert said.check("pool_covers_context", "decode-1")["verdict"] == "fail"
        assert said.code == EXIT_FAIL


class TestPoolsWithHeadroom:
    """5,632 on both sides for a context of 4,096: more than 4,096 x 1.25 = 5,120."""

    def test_an_old_version_fails_by_its_rejection_alone(self, sglang_lane: SglangLane) -> None:
        said = gate(sglang_lane("0.5.19", 5632, 5632))

        assert said.check("pool_covers_context", "prefill-1")["verdict"] == "pass"
        assert said.check("pool_covers_context", "decode-1")["verdict"] == "pass"
        assert said.check("pair_exposure", PAIR)["verdict"] == "pass"
        assert failing(said) == {"safe_rejection"}
        assert said.code == EXIT_FAIL

    def test_a_repaired_version_passes(self, sglang_lane: SglangLane) -> None:
        said = gate(sglang_lane("0.5.23", 5632, 5632))

        assert failing(said) == set()
        assert (said.code, said.document["verdict"]) == (EXIT_PASS, "pass")


class TestUnequalPoolsOfARepairedVersion:
    """0.5.23 leaks no more, but decode waits for what prefill has refused."""

    def test_exposure_passes_and_limits_fail(self, sglang_lane: SglangLane) -> None:
        said = gate(sglang_lane("0.5.23", 1024, 4096))

        assert said.check("pair_exposure", PAIR)["verdict"] == "pass"
        limits = said.check("pair_limits", PAIR)
        assert (limits["verdict"], limits["kind"]) == ("fail", "availability")
        assert limits["figures"]["lengths"] == [1018, 4089]
