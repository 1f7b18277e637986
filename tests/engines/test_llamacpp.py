"""The gate over real llama.cpp, whose slots share one pool that it does not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.exits import EXIT_INCONCLUSIVE
from tests.engines.conftest import Keeper
from tests.engines.lane.llamacpp import llamacpp_server

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("is_unified", [True, False])
def test_nobody_can_tell_whether_the_slots_share_a_pool(
    keeper: Keeper, tmp_path: Path, is_unified: bool
) -> None:
    keeper.end()
    server = llamacpp_server(
        keeper.root, context=1024, slots=4, is_unified=is_unified, logs=tmp_path
    )
    with server as lane:
        node = ("--unified", lane.urls["llamacpp"])
        said = lane.verb("gate", "--engine", "llamacpp", *node, "--json")

    assert said.check("pool_covers_context", "unified-1")["verdict"] == "inconclusive"
    assert (said.code, said.document["verdict"]) == (EXIT_INCONCLUSIVE, "inconclusive")
