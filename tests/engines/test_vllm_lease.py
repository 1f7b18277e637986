"""A vLLM pair whose lease runs out unread: the round sees it by its answers alone.

Decode is asked after prefill has given the pages to somebody else, and answers with 200.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.conftest import Keeper
from tests.engines.lane.servers import ROOT, Lane
from tests.engines.lane.vllm import vllm_pair

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

LEASE_S = 3
LONGEST = 2048


@pytest.fixture(scope="module")
def lane(keeper: Keeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    keeper.end()
    logs = tmp_path_factory.mktemp("vllm-pair")
    pair = vllm_pair(keeper.root, longest=LONGEST, blocks=(24, 40), lease_s=LEASE_S, logs=logs)
    with pair as lane:
        yield lane


def round_over(lane: Lane, *, wait_s: float) -> dict[str, Any]:
    """Answer the checks of one reference round by name."""
    program = [sys.executable, "-m", "tests.engines.leased_round"]
    words = [*program, lane.urls["prefill"], lane.urls["decode"], str(wait_s)]
    done = subprocess.run(  # noqa: S603 - our own program
        lane.room.on_its_network(words), check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {one["check"]: one for one in json.loads(done.stdout)["checks"]}


def test_in_time_every_answer_is_like_that_alone(lane: Lane) -> None:
    checks = round_over(lane, wait_s=0)

    assert checks["reference.reference"]["verdict"] == "pass", checks["reference.reference"]


def test_after_the_lease_answers_are_made_from_others_pages(lane: Lane) -> None:
    checks = round_over(lane, wait_s=LEASE_S + 2)

    reference = checks["reference.reference"]
    assert (reference["verdict"], reference["kind"]) == ("fail", "corruption"), reference
    # It was answered as if nothing had happened.
    assert checks["reference.answered"]["verdict"] != "fail"
    assert reference["figures"]["status"] == 200
