"""The lengths of which ``decode_admission`` says that one of them freezes decode, sent for real."""

from __future__ import annotations

import json
import time

import pytest

from tests.engines.conftest import SglangLane
from tests.engines.lane.servers import Lane

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

#: What is served at all is served in a fraction of a second. Unit: seconds.
PATIENCE_S = 10.0


def send(lane: Lane, length: int) -> int:
    """Send one prompt of so many tokens through the router; answer the status, 0 for silence."""
    prompt = [50 + place * 7 % 400 for place in range(length)]
    body = {"input_ids": prompt, "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
    url = f"{lane.urls['router']}/generate"
    return lane.ask("POST", url, body, timeout_s=PATIENCE_S)[0]


def test_the_band_is_exact_and_passes_by(sglang_lane: SglangLane) -> None:
    lane = sglang_lane("0.5.19", 1024, 1024)
    nodes = ("--prefill", lane.urls["prefill"], "--decode", lane.urls["decode"])
    said = lane.verb("gate", "--engine", "sglang", *nodes, "--json")
    first, last = said.check("decode_admission", "decode-1")["figures"]["hang_band"]

    # Its reserve of 16 tokens must fit beside the prompt, and the limit is 1,018.
    assert (first, last) == (1024 - 16 + 1, 1017)
    assert send(lane, first - 1) == 200
    assert send(lane, first) == 0
    # The client is gone: decode lets go within seconds, and what waited behind is served.
    deadline = time.monotonic() + 60
    while send(lane, 100) != 200:
        assert time.monotonic() < deadline
    loads = json.loads(lane.ask("GET", f"{lane.urls['decode']}/v1/loads")[1])["loads"]
    assert loads[0]["disaggregation"]["decode_prealloc_queue_reqs"] == 0
