"""The September fault, its absence, and what a redeploy does, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drill.settings import NodeSettings

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]

CONTEXT, PAGE, RESERVE = 1024, 16, 32
SMALL, LARGE = 640, 1280
FIRST_REFUSED = SMALL - 6
#: Prompt, one new token and one page stay below the free pool (PrefillAdder of the engine).
LONGEST_SCHEDULED = SMALL - 1 - PAGE - 1
NONCE, MARKER = "BN4W-77", "AM9K-31"


def _prompt(code: str, length: int) -> str:
    ask = f" Repeat this code exactly: {code}"
    filler = "the quick brown fox jumps over the lazy dog. " * (length // 45 + 1)
    return filler[: length - len(ask)] + ask


@pytest.fixture
def september(launch: Launch, make_pair: MakePair) -> Callable[..., Awaitable[Any]]:
    async def start(prefill: int = SMALL, decode: int = LARGE, **more: Any) -> Any:  # noqa: ANN401
        figures = {"context": CONTEXT, "page_size": PAGE, "reserved_decode_tokens": RESERVE}
        return await launch(make_pair(prefill, decode, **(figures | more)))

    return start


async def _fill(rig: Any) -> None:  # noqa: ANN401
    for _ in range(4):
        said = await rig.say(_prompt(MARKER, 600), 16, tenant=rig.cluster.plan.tenants[0])
        assert said.startswith(MARKER)


async def _trace(rig: Any) -> dict[str, Any]:  # noqa: ANN401
    answer = await rig.get("control", "/nodes/decode-1/trace?last=1")
    return dict(answer.body["answers"][0])


@pytest.mark.parametrize("length", [FIRST_REFUSED, FIRST_REFUSED + 1, 700, 800])
async def test_the_band_speaks_another_tenants_text(september: Launch, length: int) -> None:
    rig = await september()
    await _fill(rig)
    answer = await rig.generate(_prompt(NONCE, length), 200)
    assert answer.status == 200
    assert answer.body["meta_info"]["prompt_tokens"] == length
    assert MARKER in answer.body["text"]
    assert NONCE not in answer.body["text"]
    trace = await _trace(rig)
    kinds = [slot["kind"] for slot in trace["slots"]]
    assert kinds[0] == "own"
    assert "own" not in kinds[1:]
    assert trace["transferred"] == 1


async def test_the_longest_scheduled_prompt_is_read_and_answered(september: Launch) -> None:
    rig = await september()
    await _fill(rig)
    said = await rig.say(_prompt(NONCE, LONGEST_SCHEDULED), 16)
    assert said.startswith(NONCE)
    assert {slot["kind"] for slot in (await _trace(rig))["slots"]} == {"own"}


async def test_garbage_hides_every_marker_of_a_leak(september: Launch) -> None:
    rig = await september()
    await rig.ask("POST", "control", "/style", {"style": "garbage"})
    await _fill(rig)
    answer = await rig.generate(_prompt(NONCE, 700), 200)
    assert answer.status == 200
    assert MARKER not in answer.body["text"]
    assert NONCE not in answer.body["text"]


async def test_garbage_changes_nothing_on_a_healthy_cluster(september: Launch) -> None:
    rig = await september(LARGE, LARGE, engine_version="0.5.22")
    prompts = [_prompt(NONCE, 900), "hello there", "a b a b a b", "\x00\x01 9f8e7d6c5b4a"]
    plain = [await rig.say(prompt, 60) for prompt in prompts]
    await rig.ask("POST", "control", "/style", {"style": "garbage"})
    assert [await rig.say(prompt, 60) for prompt in prompts] == plain


@pytest.mark.parametrize("version", ["0.5.19", "0.5.20", "0.5.21", "0.5.23"])
async def test_equal_pools_refuse_on_both_legs(september: Launch, version: str) -> None:
    rig = await september(SMALL, SMALL, engine_version=version)
    answer = await rig.generate(_prompt(NONCE, FIRST_REFUSED), 1)
    assert answer.status == 400
    assert answer.body["error"]["code"] == "decode_bad_request"
    assert f"({FIRST_REFUSED} tokens)" in answer.body["error"]["message"]


@pytest.mark.parametrize("version", ["0.5.20", "0.5.21"])
async def test_a_guarded_prefill_refuses_and_decode_holds_its_reservation(
    september: Launch, version: str
) -> None:
    rig = await september(engine_version=version, waiting_timeout_s=0.2)
    task = asyncio.create_task(rig.generate(_prompt(NONCE, 700), 1))
    await rig.until("decode-1", "decode_transfer_queue_reqs")
    assert (await rig.loads("decode-1"))["num_used_tokens"] >= 700
    answer = await task
    assert answer.status == 500
    assert answer.body["error"]["code"] == "decode_internal_error"
    assert "in KVPoll.WaitingForInput" in answer.body["error"]["message"]
    assert (await rig.loads("decode-1"))["num_used_tokens"] == 0


async def test_a_prompt_that_cannot_be_reserved_blocks_all_behind_it(september: Launch) -> None:
    rig = await september(SMALL, SMALL)
    longest = FIRST_REFUSED - 1
    assert longest + RESERVE > SMALL
    stuck = asyncio.create_task(rig.generate(_prompt(NONCE, longest), 1))
    await rig.until("decode-1", "decode_prealloc_queue_reqs")
    behind = asyncio.create_task(rig.say("hello there", 5))
    done, _ = await asyncio.wait([stuck, behind], timeout=0.3)
    assert not done
    stuck.cancel()
    assert await behind == "hello"
    queues = (await rig.loads("decode-1"))["disaggregation"]
    assert queues["decode_prealloc_queue_reqs"] == 0


async def test_a_pair_client_meets_on_both_nodes_whoever_comes_first(september: Launch) -> None:
    rig = await september()
    params = {"max_new_tokens": 7, "temperature": 0}
    for room, order in ((1, ("prefill-1", "decode-1")), (2, ("decode-1", "prefill-1"))):
        body = {
            "text": _prompt(NONCE, 300),
            "sampling_params": params,
            "bootstrap_host": "127.0.0.1",
            "bootstrap_port": 8991,
            "bootstrap_room": room,
        }
        first = asyncio.create_task(rig.ask("POST", order[0], "/generate", body))
        done, _ = await asyncio.wait([first], timeout=0.1)
        assert not done
        answers = {order[1]: await rig.ask("POST", order[1], "/generate", body)}
        answers[order[0]] = await first
        assert answers["decode-1"].body["text"] == NONCE
        assert answers["decode-1"].body["meta_info"]["prompt_tokens"] == 300
        prefill = answers["prefill-1"].body["meta_info"]
        assert prefill["finish_reason"] == {"type": "length", "length": 0}


@pytest.mark.parametrize("name", ["prefill-1", "decode-1"])
async def test_a_leg_without_a_room_is_refused(september: Launch, name: str) -> None:
    rig = await september()
    answer = await rig.ask("POST", name, "/generate", {"text": "hi"})
    assert answer.status == 400
    assert "without bootstrap room id" in answer.body["error"]["message"]


async def test_a_restart_is_a_new_process_with_fresh_memory(september: Launch) -> None:
    rig = await september()
    await _fill(rig)
    before = [(await rig.get(name, "/server_info")).body for name in ("prefill-1", "decode-1")]
    figures = {"engine_version": "0.5.22", "pool": LARGE, "context": CONTEXT, "page_size": PAGE}
    answer = await rig.ask("POST", "control", "/nodes/prefill-1/restart", figures)
    assert answer.status == 200
    after = (await rig.get("prefill-1", "/server_info")).body
    assert (after["version"], after["max_total_num_tokens"]) == ("0.5.22", LARGE)
    for name in ("startup_time", "random_seed"):
        assert after[name] != before[0][name]
    assert (await rig.get("decode-1", "/server_info")).body == before[1]
    assert "num_requests_total" in (await rig.get("prefill-1", "/metrics")).body
    said = await rig.say(_prompt(NONCE, 700), 16)
    assert said.startswith(NONCE)


async def test_decode_forgets_its_pages_in_a_restart(september: Launch) -> None:
    rig = await september()
    await _fill(rig)
    await rig.ask("POST", "control", "/nodes/decode-1/restart", {})
    answer = await rig.generate(_prompt(NONCE, 700), 50)
    assert answer.status == 200
    assert MARKER not in answer.body["text"]
    assert {slot["kind"] for slot in (await _trace(rig))["slots"]} == {"own", "unwritten"}


async def test_a_request_in_a_dying_node_fails(september: Launch) -> None:
    rig = await september()
    body = {"text": "hi", "bootstrap_port": 8991, "bootstrap_room": 5}
    waiting = asyncio.create_task(rig.ask("POST", "decode-1", "/generate", body))
    await rig.until("decode-1", "decode_transfer_queue_reqs")
    await rig.ask("POST", "control", "/nodes/prefill-1/restart", {})
    answer = await waiting
    assert answer.status == 500
    assert "Losing connection with prefill instance" in answer.body["message"]


async def test_queues_are_empty_when_all_is_answered(september: Launch) -> None:
    rig = await september()
    await asyncio.gather(*(rig.say(_prompt(NONCE, 100 + at), 30) for at in range(20)))
    for name in ("prefill-1", "decode-1"):
        loads = await rig.loads(name)
        queues = loads["disaggregation"] | loads["queues"]
        counts = [value for key, value in queues.items() if key.endswith("reqs")]
        assert [loads["num_running_reqs"], loads["num_waiting_reqs"], *counts] == [0] * 7
        assert loads["num_used_tokens"] == 0


async def test_running_requests_show_in_the_loads(launch: Launch, make_pair: MakePair) -> None:
    rig = await launch(make_pair(1024, 1024), token_s=0.002)
    task = asyncio.create_task(rig.say("hello there", 40))
    await rig.until("decode-1", "num_running_reqs")
    assert len(await task) == 40
