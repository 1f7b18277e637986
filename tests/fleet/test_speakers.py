"""Rules of the ways to send a prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from fleet.client import OutboundClient
from fleet.contract import PLAIN, Api, Completion, Form, Speaker
from fleet.dialects import DIALECTS
from fleet.live import NodeAddress
from fleet.reading import Role
from fleet.speakers import DECODE_SILENT, NodeSpeaker, PairSpeaker, RouterSpeaker
from tests.fleet.wire import BAD_ANSWERS, SECRET, body_of, client_of

PREFILL = NodeAddress(
    name="p0", url="http://10.0.0.1:30000/", role=Role.PREFILL, bootstrap_port=8998
)
DECODE = NodeAddress(name="d0", url="http://10.0.0.2:30000", role=Role.DECODE)
REFUSAL = "Input length (1020 tokens) exceeds the maximum allowed length (1018 tokens)."

FORMS = [Form(api=api, is_streamed=one) for api in Api for one in (False, True)]

Leg = Callable[[], Awaitable[httpx.Response]]


def answered(text: str = "hello", prompt_tokens: int = 3) -> httpx.Response:
    meta = {"finish_reason": {"type": "length"}, "prompt_tokens": prompt_tokens}
    return httpx.Response(200, json={"text": text, "meta_info": meta})


async def serves() -> httpx.Response:
    return answered()


async def runs_dry() -> httpx.Response:
    return answered("", prompt_tokens=1)


async def refuses() -> httpx.Response:
    return httpx.Response(400, json={"error": {"message": REFUSAL}})


async def aborts() -> httpx.Response:
    reason = {"type": "abort", "message": REFUSAL}
    return httpx.Response(200, json={"text": "", "meta_info": {"finish_reason": reason}})


async def gives_up() -> httpx.Response:
    return httpx.Response(500, json={"error": {"message": "Decode transfer failed"}})


async def is_down() -> httpx.Response:
    raise httpx.ConnectError("refused")


async def hangs() -> httpx.Response:
    await asyncio.Event().wait()
    raise AssertionError("woken")


@dataclass(slots=True, kw_only=True)
class Pair:
    """A pair of nodes on paper; records what it was asked and which leg was cut off."""

    prefill: Leg
    decode: Leg
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    cut_off: list[str] = field(default_factory=list)
    are_asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        leg = "prefill" if request.url.host == "10.0.0.1" else "decode"
        self.bodies[leg] = body_of(request)
        self.keys[leg] = request.headers.get("authorization", "")
        if len(self.bodies) == 2:
            self.are_asked.set()
        try:
            return await (self.prefill if leg == "prefill" else self.decode)()
        except asyncio.CancelledError:
            self.cut_off.append(leg)
            raise

    async def ask(
        self,
        *,
        timeout_s: float = 5.0,
        form: Form = PLAIN,
        text: str = "",
        **over: Any,  # noqa: ANN401
    ) -> Completion:
        client = OutboundClient(transport=httpx.MockTransport(self))
        speaker = PairSpeaker(
            client=client, prefill=PREFILL, decode=DECODE, **{"decode_grace_s": 0.1, **over}
        )
        return await speaker.ask(
            token_ids=[7, 8, 9],
            max_new_tokens=4,
            tenant_key="tenant",
            timeout_s=timeout_s,
            form=form,
            text=text,
        )


async def test_both_legs_get_the_same_body_with_our_own_bootstrap_fields() -> None:
    pair = Pair(prefill=serves, decode=serves)
    rooms, ids = set(), set()
    for _ in range(3):
        await pair.ask(node_key=SECRET)
        assert pair.bodies["prefill"] == pair.bodies["decode"]
        body = dict(pair.bodies["decode"])
        room = body.pop("bootstrap_room")
        assert 0 <= room < 2**63
        rooms.add(room)
        ids.add(body.pop("rid"))
        assert body == {
            "input_ids": [7, 8, 9],
            "sampling_params": {"max_new_tokens": 4, "temperature": 0},
            "bootstrap_host": "10.0.0.1",
            "bootstrap_port": 8998,
        }
    assert (len(rooms), len(ids)) == (3, 3)
    assert set(pair.keys.values()) == {f"Bearer {SECRET}"}


async def test_without_a_node_key_the_tenants_is_shown_as_a_router_does() -> None:
    pair = Pair(prefill=serves, decode=serves)
    await pair.ask()
    assert set(pair.keys.values()) == {"Bearer tenant"}


@pytest.mark.parametrize(
    ("prefill", "decode", "status", "words"),
    [
        # What decode says is the answer, also where prefill refused: that is the fault itself.
        (serves, serves, 200, ""),
        (runs_dry, serves, 200, ""),
        (refuses, serves, 200, ""),
        (aborts, serves, 200, ""),
        (hangs, serves, 200, ""),
        (serves, refuses, 400, "exceeds"),
        (refuses, refuses, 400, "exceeds"),
        (hangs, refuses, 400, "exceeds"),
        (serves, gives_up, 500, "transfer failed"),
        (serves, is_down, 0, "10.0.0.2"),
        (hangs, is_down, 0, "10.0.0.2"),
        # Where decode says nothing of its own, prefill's word is the answer and says so.
        (refuses, hangs, 400, DECODE_SILENT),
        (aborts, hangs, 200, DECODE_SILENT),
        (refuses, gives_up, 400, DECODE_SILENT),
        (refuses, is_down, 400, DECODE_SILENT),
        (is_down, hangs, 0, DECODE_SILENT),
        (is_down, is_down, 0, DECODE_SILENT),
        (gives_up, hangs, 500, DECODE_SILENT),
    ],
)
async def test_the_answer_is_decodes_unless_it_has_none(
    prefill: Leg, decode: Leg, status: int, words: str
) -> None:
    pair = Pair(prefill=prefill, decode=decode)
    completion = await pair.ask()
    assert completion.status == status
    assert words in completion.error
    if words == DECODE_SILENT and prefill in {refuses, aborts}:
        assert completion.is_refused
        assert REFUSAL in completion.text
    if not words:
        assert completion.error == ""
    hanging = [name for name, leg in (("prefill", prefill), ("decode", decode)) if leg is hangs]
    assert pair.cut_off == hanging


async def test_a_pair_that_hangs_ends_with_the_time_out() -> None:
    pair = Pair(prefill=hangs, decode=hangs)
    completion = await pair.ask(timeout_s=0.2)
    assert completion.status == 0
    assert "time-out" in completion.error
    assert sorted(pair.cut_off) == ["decode", "prefill"]


async def test_an_asker_that_is_cancelled_cuts_both_legs_off() -> None:
    pair = Pair(prefill=hangs, decode=hangs)
    asking = asyncio.create_task(pair.ask())
    await pair.are_asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert sorted(pair.cut_off) == ["decode", "prefill"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_no_bad_answer_makes_a_speaker_raise(name: str, form: Form) -> None:
    client = client_of(BAD_ANSWERS[name])
    speakers: list[Speaker] = [
        RouterSpeaker(client=client, router_url="http://10.0.0.9:1"),
        PairSpeaker(client=client, prefill=PREFILL, decode=DECODE, decode_grace_s=0.1),
        *(NodeSpeaker(client=client, node=replace(DECODE, engine=one)) for one in DIALECTS),
    ]
    for speaker in speakers:
        completion = await speaker.ask(
            token_ids=[1],
            max_new_tokens=1,
            tenant_key=SECRET,
            timeout_s=1,
            form=form,
            text="a",
        )
        assert completion.error
        assert completion.status in {0, 200, 500}
        assert SECRET not in repr(completion)


async def test_an_address_that_may_not_be_asked_is_a_completion_without_status() -> None:
    client = client_of(lambda _: answered())
    outside = NodeAddress(name="d0", url="http://8.8.8.8", role=Role.DECODE)
    speakers: list[Speaker] = [
        RouterSpeaker(client=client, router_url="http://169.254.169.254"),
        PairSpeaker(client=client, prefill=PREFILL, decode=outside),
        PairSpeaker(client=client, prefill=outside, decode=outside),
    ]
    for speaker in speakers:
        completion = await speaker.ask(token_ids=[1], max_new_tokens=1, tenant_key="", timeout_s=1)
        assert completion.status == 0
        assert "not connected to" in completion.error


async def test_a_router_is_asked_as_the_tenant() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answered("hi", prompt_tokens=2)

    speaker = RouterSpeaker(client=client_of(handle), router_url="http://10.0.0.9:1/", model="m")
    completion = await speaker.ask(
        token_ids=[5, 6], max_new_tokens=1, tenant_key=SECRET, timeout_s=1
    )
    assert (completion.text, completion.prompt_tokens, speaker.label) == ("hi", 2, "router")
    assert (seen[0].url.path, seen[0].headers["authorization"]) == (
        "/generate",
        f"Bearer {SECRET}",
    )
    body = body_of(seen[0])
    assert body.pop("rid") == seen[0].headers["x-request-id"]
    assert body == {
        "input_ids": [5, 6],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "model": "m",
    }


def test_no_node_key_is_in_the_words_of_a_speaker() -> None:
    client = client_of(lambda _: answered())
    speaker = PairSpeaker(client=client, prefill=PREFILL, decode=DECODE, node_key=SECRET)
    assert SECRET not in repr(speaker)
    assert speaker.label == "pair p0/d0"


def framed(*documents: dict[str, Any], is_over: bool = True) -> httpx.Response:
    """Answer a stream of events, and where it is not over one that hangs after them."""

    async def parts() -> AsyncIterator[bytes]:
        for document in documents:
            yield f"data: {json.dumps(document)}\n\n".encode()
        if not is_over:
            await asyncio.Event().wait()
        yield b"data: [DONE]\n\n"

    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=parts())


async def streams() -> httpx.Response:
    meta = {"prompt_tokens": 3, "completion_tokens": 1, "finish_reason": {"type": "length"}}
    return framed({"text": "hello", "output_ids": [1], "meta_info": meta})


async def streams_and_hangs() -> httpx.Response:
    meta = {"prompt_tokens": 3, "completion_tokens": 1, "finish_reason": None}
    return framed({"text": "MARK", "output_ids": [1], "meta_info": meta}, is_over=False)


async def streams_a_refusal() -> httpx.Response:
    reason = {"type": "abort", "message": REFUSAL, "status_code": 400}
    meta = {"prompt_tokens": 1, "completion_tokens": 0, "finish_reason": reason}
    return framed({"text": "", "output_ids": [], "meta_info": meta})


async def streams_a_fault() -> httpx.Response:
    return framed({"error": {"message": "Decode transfer failed", "code": 500}})


@pytest.mark.parametrize(
    ("prefill", "decode", "status", "words"),
    [
        (streams, streams, 200, ""),
        (streams_a_refusal, streams, 200, ""),
        (streams_a_refusal, streams_a_refusal, 400, "exceeds"),
        # Under a 200 too a fault of decode after a refusal of prefill is silence.
        (streams_a_refusal, streams_a_fault, 400, DECODE_SILENT),
        (streams_a_refusal, streams_and_hangs, 400, DECODE_SILENT),
        (streams_a_refusal, hangs, 400, DECODE_SILENT),
        (streams, streams_a_fault, 500, "transfer failed"),
    ],
)
async def test_streamed_legs_are_judged_as_whole_ones(
    prefill: Leg, decode: Leg, status: int, words: str
) -> None:
    pair = Pair(prefill=prefill, decode=decode)
    completion = await pair.ask(form=Form(is_streamed=True))
    assert completion.said_status == status
    assert words in completion.error
    assert bool(words) is bool(completion.error)
    assert completion.is_refused is (status == 400)
    assert ("MARK" in completion.text) is (decode is streams_and_hangs)
    assert pair.bodies["decode"]["stream"] is True


@pytest.mark.parametrize("api", [Api.COMPLETIONS, Api.CHAT])
async def test_a_pair_is_asked_by_every_api_with_our_own_bootstrap_fields(api: Api) -> None:
    async def says() -> httpx.Response:
        choice = {"text": "a", "message": {"content": "a"}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 3}})

    pair = Pair(prefill=says, decode=says)
    completion = await pair.ask(form=Form(api=api, cache_salt="s"), text="seven")
    assert (completion.answer, completion.error) == ("a", "")
    body = pair.bodies["prefill"]
    assert body == pair.bodies["decode"]
    assert (body["bootstrap_host"], body["cache_salt"]) == ("10.0.0.1", "s")
    sent = body.get("prompt") or body["messages"]
    said = [7, 8, 9] if api is Api.COMPLETIONS else [{"role": "user", "content": "seven"}]
    assert sent == said


async def test_a_form_that_cannot_be_sent_is_a_completion_without_status() -> None:
    def handle(_: httpx.Request) -> httpx.Response:
        raise AssertionError("asked")

    client = client_of(handle)
    chat, salted = Form(api=Api.CHAT), Form(api=Api.GENERATE, cache_salt="s")
    vllm = replace(DECODE, engine="vllm", role=Role.UNIFIED)
    cases: list[tuple[Speaker, Form, str]] = [
        (RouterSpeaker(client=client, router_url="http://10.0.0.9:1"), chat, "no text"),
        (RouterSpeaker(client=client, router_url="http://10.0.0.9:1"), salted, "cache_salt"),
        (NodeSpeaker(client=client, node=vllm), Form(), "vllm has no /generate"),
        (PairSpeaker(client=client, prefill=PREFILL, decode=DECODE), chat, "no text"),
    ]
    for speaker, form, words in cases:
        completion = await speaker.ask(
            token_ids=[1], max_new_tokens=1, tenant_key=SECRET, timeout_s=1, form=form
        )
        assert (completion.status, completion.is_answered) == (0, False)
        assert words in completion.error


async def test_a_node_is_asked_with_its_own_key_and_else_with_the_tenants() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        choice = {"text": "a", "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 1}})

    node = replace(DECODE, engine="vllm", role=Role.UNIFIED)
    for key in ("", SECRET):
        speaker = NodeSpeaker(client=client_of(handle), node=node, node_key=key, model="m")
        await speaker.ask(
            token_ids=[5],
            max_new_tokens=1,
            tenant_key="tenant",
            timeout_s=1,
            form=Form(api=Api.COMPLETIONS),
        )
        assert SECRET not in repr(speaker)
    keys = [request.headers["authorization"] for request in seen]
    assert keys == ["Bearer tenant", f"Bearer {SECRET}"]
    assert [request.url.path for request in seen] == ["/v1/completions"] * 2
    assert body_of(seen[0])["prompt"] == [5]
    assert speaker.label == "node d0"
