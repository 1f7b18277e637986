"""Canary rounds against real llama.cpp with weights that speak: a clean engine passes.

One slot, so its pool is known. The node is named as the router too: it is its own front door.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.exits import EXIT_PASS
from tests.engines.conftest import Keeper
from tests.engines.lane.llamacpp import llamacpp_server
from tests.engines.lane.servers import Lane, Said

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

#: With prompts near 2,048 tokens, for which it was made, the small model slips more often.
CONTEXT = 1024
GRANT = 40_000


@pytest.fixture
def lane(keeper: Keeper, tmp_path: Path) -> Iterator[Lane]:
    keeper.end()
    with llamacpp_server(
        keeper.root, context=CONTEXT, slots=1, is_unified=False, logs=tmp_path
    ) as lane:
        yield lane


def probe(lane: Lane, keys: tuple[str, ...], *more: str) -> Said:
    node = lane.urls["llamacpp"]
    way = ("--engine", "llamacpp", "--target", node, "--unified", node, "--model", lane.model)
    return lane.verb("canary", *way, *keys, "--budget-tokens", GRANT, "--json", *more)


def test_a_clean_round_passes(lane: Lane, keys: tuple[str, ...]) -> None:
    said = probe(lane, keys)

    verdicts = {one["check"]: one["verdict"] for one in said.document["checks"]}
    assert (said.code, set(verdicts.values())) == (EXIT_PASS, {"pass"}), said.document["checks"]
    rows = said.document["rounds"][0]["rows"]
    assert [row["echo"] for row in rows if row["part"] == "ask"].count("whole") > 0
    # Nobody took it out of a router, and nobody needed to.
    assert said.document["rounds"][0]["cordoned"] is False


def test_without_a_grant_nothing_is_sent(lane: Lane, keys: tuple[str, ...]) -> None:
    node = lane.urls["llamacpp"]
    way = ("--engine", "llamacpp", "--target", node, "--unified", node, "--model", lane.model)
    said = lane.verb("canary", *way, *keys, "--json")

    assert {one["verdict"] for one in said.document["checks"]} == {"not_exercised"}
    assert said.document["cost"]["requests"] == 0
