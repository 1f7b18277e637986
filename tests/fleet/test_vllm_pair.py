"""Rules of speaking to a split vLLM pair."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from fleet.contract import Api, Completion, Form
from fleet.live import NodeAddress
from fleet.reading import Role
from fleet.speakers import NodeSpeaker, PairSpeaker, RouterSpeaker
from fleet.speaking import gateway_speaker, node_speaker, pair_speaker, router_speaker
from fleet.vllm_pair import VllmPairSpeaker
from tests.fleet.wire import BAD_ANSWERS, SECRET, Handler, body_of, client_of

PREFILL = NodeAddress(name="p0", url="http://10.0.0.1:8000", role=Role.PREFILL, engine="vllm")
DECODE = NodeAddress(name="d0", url="http://10.0.0.2:8000/", role=Role.DECODE, engine="vllm")
REFERENCE = {"do_remote_prefill": True, "remote_block_ids": [[7, 8]], "remote_engine_id": "e"}
LIMIT = "This model's maximum context length is 2048 tokens."


def says(text: str, **more: object) -> httpx.Response:
    choice = {"index": 0, "text": text, "finish_reason": "length", "token_ids": [1, 2]}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return httpx.Response(200, json={"choices": [choice], "usage": usage, **more})


class Wire:
    """Two nodes on paper; keeps what they were asked, in order."""

    def __init__(self, prefill: Handler, decode: Handler) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._legs = {"10.0.0.1": prefill, "10.0.0.2": decode}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.url.host, body_of(request)))
        return self._legs[request.url.host](request)

    async def ask(self, form: Form, **over: Any) -> Completion:  # noqa: ANN401 - fields of a speaker
        speaker = VllmPairSpeaker(
            client=client_of(self), prefill=PREFILL, decode=DECODE, node_key=SECRET, **over
        )
        return await speaker.ask(
            token_ids=[7, 8, 9],
            max_new_tokens=2,
            tenant_key="t",
            timeout_s=5,
            form=form,
            text="seven",
        )


@pytest.mark.parametrize("api", [Api.COMPLETIONS, Api.CHAT])
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_decode_gets_the_reference_that_prefill_gave(api: Api, *, is_streamed: bool) -> None:
    wire = Wire(lambda _: says("W", kv_transfer_params=REFERENCE), lambda _: says("the answer"))
    came = await wire.ask(Form(api=api, is_streamed=is_streamed))
    assert (came.answer, came.token_ids, came.error) == ("the answer", (1, 2), "")
    (first, computed), (second, decoded) = wire.asked
    assert (first, second) == ("10.0.0.1", "10.0.0.2")
    wanted = computed["kv_transfer_params"]
    assert (wanted["do_remote_decode"], wanted["do_remote_prefill"]) == (True, False)
    assert (computed["max_tokens"], decoded["max_tokens"]) == (1, 2)
    assert decoded["kv_transfer_params"] == REFERENCE
    assert ("stream" in computed, "stream" in decoded) == (False, is_streamed)
    assert computed["request_id"] != decoded["request_id"]


async def test_something_may_happen_between_the_two() -> None:
    wire = Wire(lambda _: says("W", kv_transfer_params=REFERENCE), lambda _: says("a"))
    seen: list[int] = []

    async def between() -> None:
        seen.append(len(wire.asked))

    await wire.ask(Form(api=Api.COMPLETIONS), between=between)
    assert (seen, len(wire.asked)) == ([1], 2)


@pytest.mark.parametrize(
    ("prefill", "status", "words"),
    [
        (lambda _: httpx.Response(400, json={"error": {"message": LIMIT}}), 400, LIMIT),
        (lambda _: says("W"), 0, "gave no kv_transfer_params"),
        (lambda _: says("W", kv_transfer_params={}), 0, "gave no kv_transfer_params"),
        *((handler, None, "") for handler in BAD_ANSWERS.values()),
    ],
)
async def test_what_prefill_did_not_admit_never_reaches_decode(
    prefill: Handler, status: int | None, words: str
) -> None:
    wire = Wire(prefill, lambda _: says("a"))
    came = await wire.ask(Form(api=Api.COMPLETIONS))
    assert [host for host, _ in wire.asked] == ["10.0.0.1"]
    assert came.error.startswith("p0")
    assert words in came.error
    if status is not None:
        assert (came.status, came.is_refused) == (status, status == 400)
    assert SECRET not in repr(came)


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_no_bad_answer_of_decode_makes_it_raise(name: str) -> None:
    wire = Wire(lambda _: says("W", kv_transfer_params=REFERENCE), BAD_ANSWERS[name])
    came = await wire.ask(Form(api=Api.COMPLETIONS))
    assert came.error
    assert came.status in {0, 200, 500}


async def test_a_form_that_cannot_be_sent_asks_nobody() -> None:
    wire = Wire(lambda _: says("W"), lambda _: says("a"))
    came = await wire.ask(Form(api=Api.GENERATE))
    assert (came.status, wire.asked) == (0, [])
    assert "vllm has no /generate" in came.error


def test_the_way_is_picked_by_what_runs() -> None:
    client = client_of(lambda _: says("a"))
    pair = pair_speaker(client, PREFILL, DECODE, node_key=SECRET, model="m")
    assert (type(pair), pair.label) == (VllmPairSpeaker, "pair p0/d0")
    prefill, decode = (
        NodeAddress(name=one.name, url=one.url, role=one.role) for one in (PREFILL, DECODE)
    )
    assert type(pair_speaker(client, prefill, decode, node_key="", model="")) is PairSpeaker
    assert type(node_speaker(client, DECODE, node_key="", model="m")) is NodeSpeaker
    router = router_speaker(client, "http://10.0.0.9:1", kind="", model="m")
    assert isinstance(router, RouterSpeaker)
    assert (router.kind, router.label) == ("sglang-router", "router")
    assert gateway_speaker(client, "http://10.0.0.9:1", model="m").label == "gateway"
