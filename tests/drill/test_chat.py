"""The chat route: what the template adds, what it takes, and that it shows a leak as the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drill.settings import NodeSettings, Role

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]
MakeNode = Callable[..., NodeSettings]

PATH = "/v1/chat/completions"
ASK = "Repeat this code exactly: BN4W-77"
CODE = "BN4W-77"


def _chat(*contents: object, roles: tuple[str, ...] = ("user",), **more: object) -> dict[str, Any]:
    pairs = zip(roles, contents, strict=True)
    messages = [{"role": role, "content": content} for role, content in pairs]
    return {"model": "drill-model", "messages": messages, "max_tokens": len(CODE), **more}


@pytest.fixture
async def unified(launch: Launch, make_node: MakeNode) -> Any:  # noqa: ANN401
    return await launch([make_node("u", Role.UNIFIED, 2048)])


async def test_each_message_and_the_answer_cost_one_token(unified: Any) -> None:  # noqa: ANN401
    roles = ("system", "user", "assistant", "user")
    contents = ("be kind", "hello", "yes?", ASK)
    body = _chat(*contents, roles=roles)
    counted = await unified.ask("POST", "u", "/tokenize", {"messages": body["messages"]})
    assert counted.body["count"] == sum(len(text) for text in contents) + len(roles) + 1
    answer = await unified.ask("POST", "u", PATH, body)
    assert answer.body["usage"]["prompt_tokens"] == counted.body["count"]
    assert answer.body["choices"][0]["message"]["content"] == CODE


async def test_a_content_of_parts_is_joined_as_the_template_does(unified: Any) -> None:  # noqa: ANN401
    parts = [{"type": "text", "text": part} for part in ASK.split(" ")]
    whole, split = [await unified.ask("POST", "u", PATH, _chat(one)) for one in (ASK, parts)]
    assert whole.body["usage"] == split.body["usage"]
    assert split.body["choices"][0]["message"]["content"] == CODE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"messages": []}, "Messages cannot be empty."),
        ({"messages": None}, "Messages cannot be empty."),
        ({"messages": [{"role": "user", "content": 5}]}, "needs a role and a text"),
        ({"messages": ["hello"]}, "needs a role and a text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "text only"),
        ({"max_tokens": -1}, "at least 0"),
    ],
)
async def test_a_wrong_chat_is_refused_in_the_flat_shape(
    unified: Any,  # noqa: ANN401
    change: dict[str, object],
    said: str,
) -> None:
    for is_streamed in (False, True):
        body = {**_chat(ASK), "stream": is_streamed, **change}
        answer = await unified.ask("POST", "u", PATH, body)
        assert (answer.status, answer.body["object"], answer.body["code"]) == (400, "error", 400)
        assert said in answer.body["message"]


async def test_messages_can_be_missing_altogether(unified: Any) -> None:  # noqa: ANN401
    answer = await unified.ask("POST", "u", PATH, {"model": "m"})
    assert answer.status == 400
    refused = await unified.ask("POST", "u", "/tokenize", {"messages": []})
    assert (refused.status, refused.body["message"]) == (400, "Messages cannot be empty.")


@pytest.mark.parametrize("has_usage", [True, False])
async def test_a_stream_says_role_text_finish_and_usage_if_wanted(
    unified: Any,  # noqa: ANN401
    has_usage: bool,
) -> None:
    options: dict[str, object] = {"stream_options": {"include_usage": has_usage}}
    answer = await unified.ask("POST", "u", PATH, {**_chat(ASK, stream=True), **options})
    *events, done = answer.body.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == CODE
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]]
    assert finishes == [None] * (len(finishes) - 1) + ["length"]
    assert ("usage" in chunks[-1]) is has_usage


async def test_the_router_sends_chats_and_drops_their_request_id(
    launch: Launch, make_pair: MakePair
) -> None:
    rig = await launch(make_pair(1024, 1024))
    refused = await rig.ask("POST", "router", PATH, _chat(ASK))
    assert refused.status == 401
    answer = await rig.ask("POST", "router", PATH, _chat(ASK, rid="mine"), "key-of-b")
    assert answer.status == 200
    assert answer.body["choices"][0]["message"]["content"] == CODE
    assert answer.body["id"] != "mine"
    assert answer.headers["x-request-id"].startswith("chatcmpl-")


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_chat_in_the_band_speaks_another_tenants_text(
    launch: Launch, make_pair: MakePair, is_streamed: bool
) -> None:
    rig = await launch(make_pair(512, 1024, context=1024, page_size=16))
    for _ in range(4):
        await rig.say("x" * 400 + "Repeat this code exactly: AM9K-31", 4)
    body = _chat("y" * 560, max_tokens=200, stream=is_streamed)
    answer = await rig.ask("POST", "router", PATH, body, "key-of-b")
    assert answer.status == 200
    if is_streamed:
        events = answer.body.split("\n\n")[:-2]
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        said = "".join(one["choices"][0]["delta"].get("content", "") for one in chunks)
    else:
        assert answer.body["usage"]["prompt_tokens"] == 562
        said = answer.body["choices"][0]["message"]["content"]
    assert "AM9K-31" in said


@pytest.mark.parametrize("path", ["/generate", "/v1/completions", PATH])
async def test_a_stream_that_is_aborted_on_demand_ends_with_its_reason(
    launch: Launch, make_node: MakeNode, path: str
) -> None:
    """An abort without a status is no error: it ends like an answer, as the engine has it."""
    rig = await launch([make_node("u", Role.UNIFIED, 2048)], token_s=0.002)
    body: dict[str, object] = {"text": ASK, "sampling_params": {"max_new_tokens": 1500}}
    body |= {**_chat(ASK), "prompt": ASK, "stream": True, "max_tokens": 1500}
    asked = asyncio.create_task(rig.ask("POST", "u", path, body))
    await rig.until("u", "num_running_reqs")
    await rig.ask("POST", "u", "/abort_request", {"abort_all": True})
    answer = await asked
    *_, last, done = answer.body.removesuffix("\n\n").split("\n\n")
    assert (answer.status, done) == (200, "data: [DONE]")
    said = json.loads(last.removeprefix("data: "))
    finish = (
        said["meta_info"]["finish_reason"]["type"]
        if path == "/generate"
        else said["choices"][0]["finish_reason"]
    )
    assert finish == "abort"
