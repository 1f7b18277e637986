"""Rules of sending a prompt: once, over its own connection, heard while it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from fleet.asking import Target, ask
from fleet.client import OutboundClient
from fleet.contract import Api, Completion, Form
from fleet.dialects import DIALECTS, Wish
from tests.fleet.wire import SECRET, client_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
FRAME = b'data: {"choices": [{"index": 0, "text": "%b", "finish_reason": %b}]}\n\n'
DONE = b"data: [DONE]\n\n"
STREAMED = Form(api=Api.COMPLETIONS, is_streamed=True)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve on loopback; answers the address, and the whole requests as they come."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
            size = next(int(value) for name, _, value in lines if name == b"content-length")
            requests.append(head + await reader.readexactly(size))
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**24)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
    finally:
        server.close()


def saying(*parts: bytes) -> Talk:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return talk


async def asked(
    url: str,
    *,
    form: Form = STREAMED,
    timeout_s: float = 5.0,
    token_ids: list[int] | None = None,
    client: OutboundClient | None = None,
) -> Completion:
    wish = Wish(token_ids=token_ids or [1, 2], text="", max_new_tokens=2, form=form)
    async with client or OutboundClient() as way:
        target = Target(
            client=way, url=url, dialect=DIALECTS["vllm"], key=SECRET, timeout_s=timeout_s
        )
        return await ask(target, wish)


async def test_a_stream_is_heard_over_a_real_connection() -> None:
    talk = saying(HEAD, FRAME % (b"to ", b"null"), FRAME % (b"be", b'"stop"'), DONE)
    async with listening(talk) as (url, requests):
        came = await asked(url)
    assert (came.status, came.answer, came.finish, came.frames) == (200, "to be", "stop", 2)
    assert came.first_token_s is not None
    assert 0 < came.first_token_s <= came.seconds
    head = requests[0].lower()
    assert b"authorization: bearer " + SECRET.encode() in head
    assert b"\r\nx-request-id: " in head
    assert b"connection: close" in head


async def test_a_stream_that_stalls_ends_with_the_time_out_and_keeps_what_came() -> None:
    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + FRAME % (b"9 tokens", b"null"))
        await reader.read()

    async with listening(stall) as (url, _):
        came = await asked(url, timeout_s=0.3)
    assert (came.status, came.answer) == (0, "9 tokens")
    assert came.error.endswith("did not answer within 0.3 s (time-out), after 1 frame")
    assert came.seconds >= 0.3


async def test_a_server_that_keeps_the_connection_after_done_is_not_waited_for() -> None:
    is_closed = asyncio.Event()

    async def stay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + FRAME % (b"a", b'"stop"') + DONE)
        assert await reader.read() == b""
        is_closed.set()

    async with listening(stay) as (url, _):
        came = await asked(url, timeout_s=30.0)
        await asyncio.wait_for(is_closed.wait(), timeout=5)
    assert (came.status, came.answer, came.error) == (
        200,
        "a",
        "the answer does not count its prompt tokens",
    )
    assert came.seconds < 10


@pytest.mark.parametrize(
    ("parts", "status", "words"),
    [
        ((HEAD, FRAME % (b"a", b"null")), 0, "cut off"),
        ((HEAD[:-2] + b"Content-Length: 900\r\n\r\n", FRAME % (b"a", b"null")), 0, "cut off"),
        ((HEAD,), 0, "no events"),
        ((b"",), 0, "reset"),
        ((b"SSH-2.0-OpenSSH_9\r\n\r\n",), 0, "HTTP"),
        ((b"HTTP/1.1 302 Found\r\nLocation: http://evil/\r\n\r\n",), 0, "never followed"),
        ((HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n", b"x"), 0, "compressed"),
        ((b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno",), 400, "no"),
    ],
)
async def test_bad_answers_are_told_apart(
    parts: tuple[bytes, ...], status: int, words: str
) -> None:
    async with listening(saying(*parts)) as (url, requests):
        came = await asked(url)
    assert (came.status, len(requests)) == (status, 1)
    assert words in came.error
    assert SECRET not in repr(came)


async def test_a_whole_answer_that_is_cut_off_keeps_what_came() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    async with listening(saying(head, b'{"choices": [{"text": "MARK')) as (url, _):
        came = await asked(url, form=Form(api=Api.COMPLETIONS))
    assert came.status == 0
    assert "cut off" in came.error
    assert "MARK" in came.text


async def test_a_long_prompt_is_sent_whole_and_once() -> None:
    ids = list(range(400_000))
    async with listening(saying(HEAD, FRAME % (b"a", b'"stop"'), DONE)) as (url, requests):
        came = await asked(url, token_ids=ids, timeout_s=30.0)
    assert (came.status, len(requests)) == (200, 1)
    assert b"399998,399999]" in requests[0]
    assert b"transfer-encoding" not in requests[0][:1000].lower()


async def test_two_prompts_never_share_a_connection() -> None:
    async with (
        listening(saying(HEAD, FRAME % (b"a", b'"stop"'), DONE)) as (url, requests),
        OutboundClient() as client,
    ):
        target = Target(client=client, url=url, dialect=DIALECTS["vllm"], timeout_s=5.0)
        wish = Wish(token_ids=[1], text="", max_new_tokens=1, form=STREAMED)
        answers = [await ask(target, wish) for _ in range(3)]
    # The server speaks once a connection.
    assert [one.status for one in answers] == [200, 200, 200]
    ids = {
        line for raw in requests for line in raw.split(b"\r\n") if line.startswith(b"x-request-id")
    }
    assert len(ids) == 3


async def test_an_endless_stream_is_cut_at_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.client.STREAM_MAX_BYTES", 100_000)

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while not writer.transport.is_closing():
            writer.write(FRAME % (b"more", b"null"))
            await writer.drain()

    async with listening(pour) as (url, _):
        came = await asked(url)
    assert came.status == 0
    assert "more than the 100000 bytes" in came.error
    assert came.answer.startswith("moremore")


async def test_an_asker_that_leaves_closes_its_connection() -> None:
    is_asked, is_closed = asyncio.Event(), asyncio.Event()

    async def wait_for_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + FRAME % (b"a", b"null"))
        is_asked.set()
        await reader.read()
        is_closed.set()

    async with listening(wait_for_the_end) as (url, _):
        asking = asyncio.create_task(asked(url, timeout_s=60.0))
        await is_asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(is_closed.wait(), timeout=5)


async def test_the_policy_stands_before_any_prompt() -> None:
    def handle(_: httpx.Request) -> httpx.Response:
        raise AssertionError("asked")

    for url in ("http://8.8.8.8", "http://169.254.169.254", "http://2130706433"):
        came = await asked(url, client=client_of(handle))
        assert came.status == 0
        assert came.error


async def test_the_seam_hears_parts_as_they_come() -> None:
    async def parts() -> AsyncIterator[bytes]:
        raw = FRAME % (b"to ", b"null") + FRAME % (b"be", b'"stop"') + DONE
        for start in range(0, len(raw), 11):
            yield raw[start : start + 11]

    def handle(_: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, headers={"content-type": "text/event-stream", "Age": "7"}, content=parts()
        )

    came = await asked("http://10.0.0.9:1", client=client_of(handle))
    assert (came.answer, came.frames, came.cache_marks) == ("to be", 2, {"age": "7"})


async def test_only_headers_that_tell_of_caches_are_kept_and_they_are_clean() -> None:
    headers = {
        "x-litellm-cache-key": "k" * 500,
        "X-Cache": "HIT\x07",
        "cf-cache-status": "DYNAMIC",
        "x-other": "secret",
        "set-cookie": "a=b",
    }
    body = {"choices": [{"text": "a", "finish_reason": "stop"}]}

    def handle(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers=headers, json=body)

    came = await asked("http://10.0.0.9:1", client=client_of(handle))
    assert set(came.cache_marks) == {"x-litellm-cache-key", "x-cache", "cf-cache-status"}
    assert max(map(len, came.cache_marks.values())) <= 80
    assert "\x07" not in came.cache_marks["x-cache"]
