"""The short way for a plain answer to a GET; whatever is unusual goes the long way, by aiohttp.

An answer over http with a length, which is what engines give, takes half of the CPU time this way
(docs/bench.md). Nothing is judged here: what this cannot read is asked for again by ``fleet.kept``,
so every refusal, cap and error has its one place there.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from aiohttp.abc import AbstractResolver

from fleet.address import Endpoint

_HEAD_END: Final = b"\r\n\r\n"
_LARGEST_HEAD: Final = 8192
_STATUS: Final = re.compile(r"HTTP/1\.1 ([245][0-9]{2})(?: [ -~]*)?")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([!-~](?:[ -~\t]*[!-~])?)?[ \t]*")
#: What makes the end of a body something else than its length, or the body something else.
_UNUSUAL: Final = frozenset({"transfer-encoding", "content-encoding", "upgrade", "trailer"})
#: Answers that have no body whatever their head says.
_BODILESS: Final = frozenset({204, 205})
_MOST_KNOWN: Final = 4096
#: Of a sweep's nodes only those that are being asked need theirs; a process has 1,024 files.
_MOST_IDLE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainReply:
    """An answer that came whole. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    status: int
    headers: Mapping[str, str]
    length: int

    @property
    def stays_open(self) -> bool:
        return self.headers.get("connection", "keep-alive").lower() == "keep-alive"


class PlainGetter:
    """Asks over connections of its own, kept for ``keep_alive_s`` seconds where a server keeps it.

    The resolver hands on only addresses that the policy lets pass, and those are connected to.
    """

    def __init__(self, resolver: AbstractResolver, *, keep_alive_s: float) -> None:
        self._resolver = resolver
        self._keep_alive_s = keep_alive_s
        self._idle: dict[str, _Line] = {}
        self._unusual: set[str] = set()

    async def get(
        self, url: str, *, endpoint: Endpoint, headers: Mapping[str, str], max_bytes: int
    ) -> PlainReply | None:
        """Answer the reply, or None where the long way must be gone; raises nothing of its own.

        The caller holds the clock: cancelling this drops the connection.
        """
        if endpoint.scheme != "http" or not endpoint.path or endpoint.origin in self._unusual:
            return None
        origin = endpoint.origin
        line = self._idle.pop(origin, None)
        if line is None or not line.is_open:
            line = await self._connected(endpoint)
        if line is None:
            return None
        try:
            reply = await line.ask(_request(url, origin, headers), max_bytes)
        except BaseException:
            line.close()
            raise
        if reply is None:
            self._remember(origin)
        elif line.is_open:
            self._keep(origin, line)
        return reply

    def close(self) -> None:
        """Close what is idle."""
        for line in self._idle.values():
            line.close()
        self._idle = {}

    def _remember(self, origin: str) -> None:
        """Keep in mind who answers otherwise, so that nobody is asked twice for ever."""
        if len(self._unusual) >= _MOST_KNOWN:
            self._unusual.clear()
        self._unusual.add(origin)

    def _keep(self, origin: str, line: _Line) -> None:
        twin = self._idle.pop(origin, None)
        if twin is None and len(self._idle) >= _MOST_IDLE:
            twin = self._idle.pop(next(iter(self._idle)))
        if twin is not None:
            twin.close()
        self._idle[origin] = line
        line.close_after(self._keep_alive_s, lambda: self._forget(origin, line))

    def _forget(self, origin: str, line: _Line) -> None:
        if self._idle.get(origin) is line:
            del self._idle[origin]

    async def _connected(self, endpoint: Endpoint) -> _Line | None:
        """Answer a new connection; None where there is none, which the long way tells better."""
        loop = asyncio.get_running_loop()
        try:
            place = await self._place_of(endpoint)
            made = socket.socket(place.family, socket.SOCK_STREAM)
            try:
                made.settimeout(0)
                await loop.sock_connect(made, (place.host, endpoint.port))
                _, line = await loop.create_connection(_Line, sock=made)
            except BaseException:
                made.close()
                raise
        except Exception:  # noqa: BLE001 - whatever it is: the long way meets it too, and tells it
            return None
        return line

    async def _place_of(self, endpoint: Endpoint) -> _Place:
        if endpoint.address is not None:
            version = endpoint.address.version
            family = socket.AF_INET if version == 4 else socket.AF_INET6  # noqa: PLR2004
            return _Place(family=family, host=str(endpoint.address))
        found = (await self._resolver.resolve(endpoint.host, endpoint.port, socket.AF_UNSPEC))[0]
        return _Place(family=socket.AddressFamily(found["family"]), host=found["host"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    family: socket.AddressFamily
    host: str


def _request(url: str, origin: str, headers: Mapping[str, str]) -> bytes:
    """Answer the request; the address and the key were found to be of plain signs before."""
    target = url[url.index("/", len("http://")) :]
    lines = [f"GET {target} HTTP/1.1", f"Host: {origin.removeprefix('http://')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


@dataclass(slots=True, eq=False)
class _Line(asyncio.Protocol):
    """One connection, one question at a time."""

    _transport: asyncio.Transport | None = None
    _waiting: asyncio.Future[PlainReply | None] | None = None
    _timer: asyncio.TimerHandle | None = None
    _seen: bytearray = field(default_factory=bytearray)
    _head: _Head | None = None
    _max_bytes: int = 0

    @property
    def is_open(self) -> bool:
        """Answer whether another question may be asked."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, request: bytes, max_bytes: int) -> asyncio.Future[PlainReply | None]:
        """Send a question; the future answers None where the answer is not a plain one."""
        if self._timer is not None:
            self._timer.cancel()
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        self._max_bytes = max_bytes
        if self._transport is None or self._transport.is_closing():
            self._end(None)
        else:
            self._transport.write(request)
        return waiting

    def close(self) -> None:
        """Close the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def close_after(self, seconds: float, then: Callable[[], None]) -> None:
        """Close it, and do what follows, unless another question is asked before."""

        def end() -> None:
            self.close()
            then()

        self._timer = asyncio.get_running_loop().call_later(seconds, end)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        """Half an answer is no plain one."""
        self._transport = None
        self._end(None)

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer; what nobody asked for ends the connection."""
        if self._waiting is None:
            self.close()
            return
        self._seen += data
        if self._head is None and not self._read_head():
            return
        head = self._head
        if head is None or len(self._seen) < head.length:
            return
        if len(self._seen) > head.length or not head.stays_open:
            self.close()
        body = bytes(memoryview(self._seen)[: head.length])
        self._end(PlainReply(status=head.status, headers=head.headers, body=body))

    def _read_head(self) -> bool:
        """Answer whether the head is there; one that is not plain ends the question."""
        end = self._seen.find(_HEAD_END)
        if end < 0:
            if len(self._seen) > _LARGEST_HEAD:
                self._end(None)
            return False
        head = _head_in(bytes(self._seen[:end])) if end <= _LARGEST_HEAD else None
        if head is None or head.length > self._max_bytes:
            self._end(None)
            return False
        del self._seen[: end + len(_HEAD_END)]
        self._head = head
        return True

    def _end(self, reply: PlainReply | None) -> None:
        waiting, self._waiting, self._head, self._seen = self._waiting, None, None, bytearray()
        if reply is None:
            self.close()
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)


def _head_in(raw: bytes) -> _Head | None:
    """Answer the head of a plain answer, None for any other."""
    try:
        first, *rest = raw.decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        return None
    status = _STATUS.fullmatch(first)
    found = [_HEADER.fullmatch(line) for line in rest]
    if status is None or None in found or int(status[1]) in _BODILESS:
        return None
    headers = {one[1].lower(): one[2] or "" for one in found if one is not None}
    length = headers.get("content-length", "")
    # A name that comes twice may mean two things: aiohttp knows which.
    if len(headers) != len(found) or not _UNUSUAL.isdisjoint(headers):
        return None
    if not (length.isdecimal() and len(length) <= 12):  # noqa: PLR2004
        return None
    return _Head(status=int(status[1]), headers=headers, length=int(length))
