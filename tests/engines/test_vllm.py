"""Our figure of vLLM's pool against the longest context that vLLM itself names.

A block holds 128 tokens here, and vLLM keeps one block for itself.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from common.exits import EXIT_FAIL, EXIT_PASS
from tests.engines.conftest import Keeper
from tests.engines.lane.servers import Lane, NotUp
from tests.engines.lane.vllm import BLOCK, vllm_server

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

#: The context that the model was made for.
LONGEST = 2048


def pool_of(lane: Lane, *more: str) -> tuple[int, dict[str, Any]]:
    """Answer the exit code of the gate, and what it says of the pool."""
    node = ("--unified", lane.urls["vllm"])
    said = lane.verb("gate", "--engine", "vllm", *node, *more, "--json")
    return said.code, said.check("pool_covers_context", "unified-1")


@pytest.fixture
def alone(keeper: Keeper) -> Path:
    """Stop the lane of another test, and answer where engines are."""
    keeper.end()
    return keeper.root


def test_the_pool_is_the_context_that_vllm_finds_by_itself(alone: Path, tmp_path: Path) -> None:
    server = vllm_server(alone, context="auto", longest=LONGEST, blocks=4, logs=tmp_path)
    with server as lane:
        code, pool = pool_of(lane)
        models = json.loads(lane.ask("GET", f"{lane.urls['vllm']}/v1/models")[1])

    named = models["data"][0]["max_model_len"]
    assert named == (4 - 1) * BLOCK
    assert pool["figures"]["pool"] == pool["figures"]["context"] == named
    # It fits once, without headroom.
    assert (code, pool["verdict"]) == (EXIT_FAIL, "fail")


def test_a_start_that_vllm_refuses_names_the_same_figure(alone: Path, tmp_path: Path) -> None:
    server = vllm_server(alone, context=str(LONGEST), longest=LONGEST, blocks=4, logs=tmp_path)

    with pytest.raises(NotUp, match="ended with"), server:
        pass

    log = (tmp_path / "vllm.log").read_text(encoding="utf-8")
    named = re.search(r"estimated maximum model length is (\d+)", log)
    assert named is not None
    assert int(named[1]) == (4 - 1) * BLOCK


def test_a_pool_of_exactly_the_headroom_passes(alone: Path, tmp_path: Path) -> None:
    blocks = LONGEST * 5 // 4 // BLOCK + 1
    server = vllm_server(alone, context=str(LONGEST), longest=LONGEST, blocks=blocks, logs=tmp_path)
    with server as lane:
        code, pool = pool_of(lane)
        raised_code, raised = pool_of(lane, "--context", str(LONGEST + 1))

    assert pool["figures"]["pool"] == pool["figures"]["required"] == LONGEST * 5 // 4
    assert (code, pool["verdict"]) == (EXIT_PASS, "pass")
    assert (raised_code, raised["verdict"]) == (EXIT_FAIL, "fail")
