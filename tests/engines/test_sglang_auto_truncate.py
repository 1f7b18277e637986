"""Why ``--allow-auto-truncate`` with unequal limits is exposed in every version: seen on 0.5.23.

Prefill cuts the prompt to its own limit and sends so many pages; decode reads all of the prompt's.
What it reads beyond is whatever stood there before, so the answer changes with other requests.
"""

from __future__ import annotations

import json

import pytest

from tests.engines.conftest import SglangLane
from tests.engines.lane.servers import Lane

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

TRIES = 3


def answer(lane: Lane, length: int, *, kind: int) -> tuple[str, int]:
    """Answer text and counted prompt of one request at temperature 0."""
    prompt = [50 + place * kind % 400 for place in range(length)]
    body = {"input_ids": prompt, "sampling_params": {"max_new_tokens": 8, "temperature": 0}}
    status, text = lane.ask("POST", f"{lane.urls['router']}/generate", body)
    assert status == 200, text
    document = json.loads(text)
    return document["text"], document["meta_info"]["prompt_tokens"]


def test_a_truncated_prompt_is_answered_from_other_requests_pages(sglang_lane: SglangLane) -> None:
    lane = sglang_lane("0.5.23", 1024, 4096, flags="--allow-auto-truncate")
    within, beyond = set(), set()
    for number in range(TRIES):
        within.add(answer(lane, 800, kind=7))
        beyond.add(answer(lane, 3000, kind=7))
        # Five times a thousand tokens overwrite a pool of 4,096.
        for other in range(5):
            answer(lane, 1000, kind=11 + 5 * number + other)

    # Random weights or not: at temperature 0 one prompt has one answer, if it is read.
    assert len(within) == 1
    assert len(beyond) > 1
    assert {counted for _, counted in beyond} == {3000}

    nodes = ("--prefill", lane.urls["prefill"], "--decode", lane.urls["decode"])
    said = lane.verb("gate", "--engine", "sglang", *nodes, "--json")
    exposure = said.check("pair_exposure")
    assert (exposure["verdict"], exposure["figures"]["band"]) == ("fail", [1018, 4089])
    assert exposure["figures"]["prefill_auto_truncate"] is True
    assert "--allow-auto-truncate" in exposure["reason"]
