"""Every engine's tokenizer is asked in its own words."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from fleet.contract import BadAnswer, NodeUnreachable
from fleet.live import NodeAddress
from fleet.reading import Role
from fleet.tokenizing import chat_length, detokenize, tokenize
from tests.fleet.wire import BAD_ANSWERS, SECRET, body_of, client_of

NODE = NodeAddress(name="p0", url="http://10.0.0.1:30000/", role=Role.UNIFIED)
#: Source: vllm-and-others.md and the recordings (llama_tokenize, vllm032_tokenize); SGLang's own
#: schema. Engine -> the field of the text, of special tokens, and of the text that comes back.
WORDS = {
    "sglang": ("prompt", "add_special_tokens", "text"),
    "vllm": ("prompt", "add_special_tokens", "prompt"),
    "llamacpp": ("content", "add_special", "content"),
}


@pytest.mark.parametrize("engine", WORDS)
async def test_a_text_becomes_token_ids_and_a_text_again(engine: str) -> None:
    text_in, specials, text_out = WORDS[engine]

    def handle(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        if request.url.path == "/tokenize":
            assert body_of(request) == {text_in: "ab", specials: False}
            return httpx.Response(200, json={"tokens": [3, 4], "count": 2})
        assert request.url.path == "/detokenize"
        assert body_of(request) == {"tokens": [3, 4]}
        return httpx.Response(200, json={text_out: "ab"})

    node = replace(NODE, engine=engine)
    client = client_of(handle)
    assert await tokenize(client, node, "ab", key=SECRET) == (3, 4)
    assert await detokenize(client, node, (3, 4), key=SECRET) == "ab"


@pytest.mark.parametrize("engine", WORDS)
async def test_special_tokens_are_counted_where_they_are_wanted(engine: str) -> None:
    text_in, specials, _ = WORDS[engine]

    def handle(request: httpx.Request) -> httpx.Response:
        assert body_of(request) == {text_in: "ab", specials: True}
        return httpx.Response(200, json={"tokens": [1, 3, 4]})

    node = replace(NODE, engine=engine)
    assert await tokenize(client_of(handle), node, "ab", has_specials=True) == (1, 3, 4)


@pytest.mark.parametrize("engine", WORDS)
async def test_a_chat_is_as_long_as_its_template_makes_it(engine: str) -> None:
    messages = {"messages": [{"role": "user", "content": "ab"}]}

    def handle(request: httpx.Request) -> httpx.Response:
        body = body_of(request)
        if request.url.path == "/apply-template":
            assert (engine, body) == ("llamacpp", messages)
            return httpx.Response(200, json={"prompt": "<user>ab"})
        if engine == "llamacpp":
            assert body == {"content": "<user>ab", "add_special": True, "parse_special": True}
        else:
            assert body == messages
        return httpx.Response(200, json={"tokens": [9, 3, 4, 8]})

    assert await chat_length(client_of(handle), replace(NODE, engine=engine), "ab") == 4


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"tokens": "x"}),
        httpx.Response(200, json={"tokens": [1, True], "text": 7}),
        httpx.Response(200, json={"tokens": [-1]}),
    ],
)
async def test_what_is_neither_ids_nor_text_is_a_bad_answer(answer: httpx.Response) -> None:
    client = client_of(lambda _: answer)
    with pytest.raises(BadAnswer, match="p0"):
        await tokenize(client, NODE, "ab")
    with pytest.raises(BadAnswer, match="p0"):
        await detokenize(client, NODE, (1,))
    for engine in WORDS:
        with pytest.raises(BadAnswer, match="p0"):
            await chat_length(client, replace(NODE, engine=engine), "ab")


async def test_an_engine_whose_tokenizer_is_not_known_says_so() -> None:
    with pytest.raises(BadAnswer, match="'other'"):
        await tokenize(client_of(lambda _: httpx.Response(200)), replace(NODE, engine="other"), "a")


async def test_tokenizing_on_a_node_that_is_down_says_so() -> None:
    with pytest.raises(NodeUnreachable):
        await tokenize(client_of(BAD_ANSWERS["refused"]), NODE, "ab")
