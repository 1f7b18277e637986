"""The two short cuts of a sweep say exactly what the long ways say, or step aside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.client import OutboundClient
from fleet.contract import Answer, FleetError
from fleet.engines import sglang_fields as fields
from fleet.engines.answers import reduce_json
from fleet.kept import CONNECT_TIMEOUT_S
from tests.fleet.test_client import listening, saying
from tests.fleet.wire import READINGS, SECRET

ROUTE = fields.SERVER_INFO[0]


def exact(text: str) -> str:
    """Read every field of an answer, as any other route is read."""
    whole = fields._of_object(fields._reduce_server_info)  # noqa: SLF001 - the long way itself
    return repr(reduce_json(Answer(status=200, text=text), whole))


def quick(text: str) -> str:
    return repr(fields.allow(ROUTE, Answer(status=200, text=text)))


def recorded() -> Iterator[dict[str, Any]]:
    for path in sorted(READINGS.glob("*.json")):
        for node in json.loads(path.read_text())["nodes"]:
            yield node["responses"][ROUTE]["json"]


def test_recorded_answers_are_read_the_quick_way_and_alike() -> None:
    documents = list(recorded())
    assert len(documents) > 5
    for document in documents:
        for indent in (None, 1):
            text = json.dumps(document, indent=indent)
            assert quick(text) == exact(text)
            assert fields._glimpse(text) is not None  # noqa: SLF001 - the quick way was gone


KEPT = sorted({*fields._SERVER_INFO, *fields._STATE, "internal_states", "env_vars"})  # noqa: SLF001
TELLING = (
    *("api_key", "admin-api-key", "APIKEY", "the_secret", "secrets", "ssl_keyfile_password"),
    *("Passwd", "access_key", "accesskey_id", "private_key", "watermark_key_b", "auth_token"),
    *("hftoken", "hub_token", "bearer_token", "credential", "credentials_file", "api_\u212aey"),
)
#: Hold the words of a secret, but the search of all fields knows better.
ALMOST = ("secrets", "admin-api-key")
SPILLING = (
    *("ssd_path", "SPILL_DIR", "offload_root", "hicache_prefix", "disk_x_directory", "disk_path\n"),
    *("hicache_storage_backend_extra_config", "extra", 'ssd_a"b_path', "ssd_model_path"),
)
WORDS = (
    *("--api-key abc", "--admin-api-key=<x>", "api_key: x", "secret=1", "password", "<redacted>"),
    *("***", "", "null", " none ", "/var/kv", '{"file_path": "/kv"}', "\ud800", "\u017fecret=1"),
    *('say \\ and "api_key":null', SECRET, "s\u00e9cret", "ready"),
)
names = (
    st.sampled_from(KEPT)
    | st.sampled_from(TELLING)
    | st.sampled_from(SPILLING)
    | st.sampled_from(tuple(fields.ENVIRONMENT))
    | st.text(max_size=6)
)
plain = (
    st.none()
    | st.booleans()
    | st.sampled_from(WORDS)
    | st.integers(min_value=-(10**25), max_value=10**25)
    | st.sampled_from((1e400, float("nan"), 0.5, -0.0, 1e22, 10**300))
)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=6,
)
states = st.dictionaries(
    st.sampled_from((*fields._STATE, "memory_usage", "startup_time", "env_vars", "secret")),  # noqa: SLF001
    values | st.dictionaries(st.sampled_from(tuple(fields.ENVIRONMENT)), plain),
)
documents = (
    st.dictionaries(names, values, max_size=6)
    | st.fixed_dictionaries({"internal_states": st.lists(states, max_size=2)})
    | st.dictionaries(st.sampled_from((*TELLING, *SPILLING)), plain, max_size=2)
    | values
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Write a document in some spelling, hurt here and there, or with a name that comes twice."""
    text = json.dumps(
        draw(documents),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from((None, 1))),
        separators=draw(st.sampled_from((None, (",", ":"), (" ,", " :\t")))),
    )
    if text.startswith("{") and len(text) > 2 and draw(st.booleans()):
        twice = json.dumps(draw(st.dictionaries(names, values, min_size=1, max_size=2)))
        text = f"{twice[:-1]},{text[1:]}"
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 1))
        text = (
            text[:place]
            + draw(st.sampled_from(tuple('"\\{}[],:09u\nx\x00-.e')))
            + text[place + cut :]
        )
    return text


@settings(max_examples=600)
@given(text=texts())
def test_no_text_whatever_is_read_otherwise_the_quick_way(text: str) -> None:
    assert quick(text) == exact(text)


@pytest.mark.parametrize("name", TELLING)
def test_a_secret_beside_a_thousand_fields_is_never_overlooked(name: str) -> None:
    document = {**next(recorded()), name: SECRET}
    plainly = json.dumps(document, ensure_ascii=False)
    escaped = plainly.replace(f'"{name}"', f'"\\u{ord(name[0]):04x}{name[1:]}"')
    assert escaped != plainly
    for text in (plainly, json.dumps(document), escaped):
        assert quick(text) == exact(text)
        assert ("exposed_secrets=('" in quick(text)) is (name not in ALMOST)
        assert SECRET not in quick(text)


@pytest.mark.parametrize(
    "named",
    [
        *({name: "/kv/pages"} for name in ("ssd_path", "Disk_Root", 'ssd_a"b_path', "spill_dir\n")),
        {"extra": {"file_path": "/kv/pages"}},
        {"extra_config": {"data_dir": "/kv/pages"}},
        {"hicache_storage_backend_extra_config": '{"file_path": "/kv/pages"}'},
    ],
)
def test_a_spill_path_is_never_overlooked(named: dict[str, object]) -> None:
    text = json.dumps({**next(recorded()), **named})
    assert quick(text) == exact(text)
    assert "/kv/pages" in quick(text)


HEAD = b"HTTP/1.1 200 OK\r\n"
REPLIES = {
    "plain": HEAD + b"Content-Length: 2\r\nX-Mixed: a\tb \r\n\r\n{}",
    "closing": HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}",
    "empty": HEAD + b"content-length: 0\r\n\r\n",
    "until the end": HEAD + b"\r\n{}",
    "in chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "both": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "odd length": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "cut off": HEAD + b"Content-Length: 9\r\n\r\n{}",
    "cut in the head": HEAD + b"Content-Le",
    "nothing": b"",
    "no HTTP": b"220 smtp ready\r\n\r\n",
    "old HTTP": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "compressed": HEAD + b"Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}",
    "redirect": b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "no content": b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n{}",
    "refused": b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}",
    "broken": b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}",
    "too large": HEAD + b"Content-Length: 99999999\r\n\r\n{}",
    "early hints": b"HTTP/1.1 103 Early\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\n{}",
    "folded": HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "not ASCII": HEAD + b"X: \xe9\r\nContent-Length: 2\r\n\r\n{}",
    "twice": HEAD + b"X: a\r\nX: b\r\nContent-Length: 2\r\n\r\n{}",
    "more than it says": HEAD + b"Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n",
    "a long head": HEAD + b"X: " + b"a" * 9000 + b"\r\nContent-Length: 2\r\n\r\n{}",
}


async def said(url: str, timeout_s: float, max_bytes: int = 20_000) -> str:
    async with OutboundClient() as client:
        try:
            reply = await client.request("GET", url, timeout_s=timeout_s, max_bytes=max_bytes)
        except FleetError as fault:
            return f"{type(fault).__name__} {fault.outcome}: {fault}"
    return repr((reply.status, sorted(reply.headers.items()), reply.body))


@pytest.mark.parametrize("raw", REPLIES.values(), ids=REPLIES.keys())
async def test_a_short_get_says_what_a_long_one_says(raw: bytes) -> None:
    async with listening(saying(raw)) as port:
        url = f"http://127.0.0.1:{port}/x"
        for max_bytes in (20_000, 1):
            short = await said(url, CONNECT_TIMEOUT_S, max_bytes)
            assert short == await said(url, CONNECT_TIMEOUT_S + 1, max_bytes)


async def test_a_name_a_refusal_and_a_missing_path_are_the_same_the_short_way() -> None:
    async with listening(saying(REPLIES["plain"])) as port:
        urls = [f"http://localhost:{port}/x?a=1", f"http://127.0.0.1:{port}"]
        alike = [(await said(url, 1), await said(url, CONNECT_TIMEOUT_S + 1)) for url in urls]
    urls = [f"http://127.0.0.1:{port}/x", "http://name.invalid/x", "http://169.254.169.254/x"]
    alike += [(await said(url, 5), await said(url, CONNECT_TIMEOUT_S + 1)) for url in urls]
    for short, long in alike:
        assert short == long


async def test_one_connection_carries_several_questions_and_a_plain_node_is_asked_once() -> None:
    heads: list[bytes] = []
    connections = 0
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(REPLIES["plain"])
        except asyncio.IncompleteReadError:
            writer.close()
            left.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with OutboundClient() as client:
        for path in ("/a", "/b?c=1", "/d"):
            await client.request("GET", f"http://127.0.0.1:{port}{path}", key="k", timeout_s=5)
    server.close()
    await asyncio.wait_for(left.wait(), 5)
    assert connections == 1
    assert [head.split(b" ")[1] for head in heads] == [b"/a", b"/b?c=1", b"/d"]
    for head in heads:
        assert f"Host: 127.0.0.1:{port}\r\n".encode() in head
        assert b"authorization: Bearer k\r\n" in head


async def test_a_node_that_answers_otherwise_is_asked_twice_only_once() -> None:
    asked = 0

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.write(REPLIES["in chunks"])
        await writer.drain()

    async with listening(talk) as port, OutboundClient() as client:
        for _ in range(3):
            url = f"http://127.0.0.1:{port}/x"
            assert (await client.request("GET", url, timeout_s=5)).body == b"{}"
    assert asked == 3 + 1


async def test_a_silent_node_takes_no_longer_than_its_time_out() -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()
            left.set()

    async with listening(silent) as port:
        url = f"http://127.0.0.1:{port}/x"
        started = asyncio.get_running_loop().time()
        told = await said(url, 0.3)
        spent_s = asyncio.get_running_loop().time() - started
        await asyncio.wait_for(left.wait(), 5)
    assert told == (
        f"NodeUnreachable timeout: http://127.0.0.1:{port} did not answer within 0.3 s (time-out)"
    )
    assert spent_s < 2 * 0.3


@pytest.mark.parametrize("digits", [900, 4300, 4301])
def test_a_number_that_no_parser_takes_is_refused_where_nobody_looks(digits: int) -> None:
    text = f'{{"version": "0.5.22", "else": {"1" * digits}}}'
    assert quick(text) == exact(text)


def test_an_answer_keeps_what_was_noted_of_it_before() -> None:
    noted = Answer(status=200, text=json.dumps(next(recorded())), exposed_secrets=("x", "a"))
    assert fields.allow(ROUTE, noted).exposed_secrets == ("a", "x")
    assert fields.allow(ROUTE, replace(noted, error="half a body")).json is None
