"""The control endpoint takes what it knows and refuses the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drill.settings import NodeSettings

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]


@pytest.fixture
async def rig(launch: Launch, make_pair: MakePair) -> Any:  # noqa: ANN401
    return await launch(make_pair(1024, 1024), scenario="september")


async def test_the_state_tells_figures_and_no_key(rig: Any) -> None:  # noqa: ANN401
    state = (await rig.get("control", "/")).body
    assert (state["scenario"], state["style"]) == ("september", "plain")
    assert [one["name"] for one in state["nodes"]] == ["prefill-1", "decode-1"]
    assert state["nodes"][0]["engine_version"] == "0.5.19"
    assert state["nodes"][0]["state"] == "serving"
    assert "key-of" not in str(state)


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/style", {"style": "loud"}, 400, "plain, garbage, upper, split, base64"),
        ("/style", {"styles": "plain"}, 400, "unknown field styles"),
        ("/nodes/nobody/restart", {}, 404, "no node nobody"),
        ("/nodes/prefill-1/restart", {"pools": 1}, 400, "unknown field pools"),
        ("/nodes/prefill-1/restart", {"pool": "1024"}, 400, "type int"),
        ("/nodes/prefill-1/restart", {"pool": True}, 400, "type int"),
        ("/nodes/prefill-1/restart", {"pool": 1}, 400, "admits no input"),
        ("/nodes/prefill-1/restart", {"page_size": 3}, 400, "multiple"),
        ("/nodes/prefill-1/restart", {"engine_version": "x"}, 400, "cannot be read"),
        ("/nodes/prefill-1/restart", [], 400, "not a JSON object"),
    ],
)
async def test_what_it_does_not_know_is_refused(
    rig: Any,  # noqa: ANN401
    path: str,
    body: object,
    status: int,
    said: str,
) -> None:
    answer = await rig.ask("POST", "control", path, body)
    assert answer.status == status
    assert said in answer.body["error"]
    assert {one["starts"] for one in (await rig.get("control", "/")).body["nodes"]} == {1}


async def test_a_node_is_restarted_once_at_a_time(rig: Any) -> None:  # noqa: ANN401
    calls = [rig.ask("POST", "control", "/nodes/prefill-1/restart", {}) for _ in range(2)]
    assert sorted([one.status for one in await asyncio.gather(*calls)]) == [200, 409]


async def test_a_restart_goes_on_without_its_client(rig: Any) -> None:  # noqa: ANN401
    task = asyncio.create_task(rig.ask("POST", "control", "/nodes/prefill-1/restart", {}))
    await rig.until_state("prefill-1", "starting")
    task.cancel()
    await rig.until_state("prefill-1", "serving")
    assert (await rig.get("prefill-1", "/health")).status == 200


async def test_the_log_has_the_engines_refusal(rig: Any) -> None:  # noqa: ANN401
    await rig.generate([1] * 1018, 1)
    lines = (await rig.get("control", "/nodes/prefill-1/log?last=5")).body["lines"]
    assert lines[-1].startswith("ERROR Input length (1018 tokens) exceeds")
    assert ", self.rid='" in lines[-1]


async def test_last_must_be_a_number(rig: Any) -> None:  # noqa: ANN401
    answer = await rig.get("control", "/nodes/prefill-1/trace?last=x")
    assert answer.status == 400
