"""Serves recorded engine bodies on thousands of loopback addresses; a process of its own.

Its CPU time never counts. Prints one line of JSON once it listens, and ends with its stdin.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Final

RECORDED: Final = (
    Path(__file__).resolve().parents[1] / "tests/data/sglang/readings/0.5.22-pd-1024-4096.json"
)
_END: Final = b"\r\n\r\n"
_BACKLOG: Final = 64


def addresses(count: int) -> list[str]:
    """Answer as many distinct loopback addresses."""
    return [f"127.1.{place // 250}.{place % 250 + 1}" for place in range(count)]


def recorded_answers(role: str) -> dict[bytes, bytes]:
    """Answer whole HTTP replies by path, as a real 0.5.22 node of this role gave them."""
    document = json.loads(RECORDED.read_text())
    node = next(one for one in document["nodes"] if one["role"] == role)
    replies: dict[bytes, bytes] = {}
    for route, answer in node["responses"].items():
        path = route.partition(" ")[2].encode()
        if "json" in answer:
            body, kind = json.dumps(answer["json"], separators=(",", ":")).encode(), "json"
        else:
            body, kind = answer["text"].encode(), "octet-stream"
        head = (
            f"HTTP/1.1 {answer['status']} OK\r\ncontent-type: application/{kind}\r\n"
            f"content-length: {len(body)}\r\nserver: uvicorn\r\n\r\n"
        )
        replies[path] = head.encode() + body
    return replies


class Node(asyncio.Protocol):
    """Answers one request after the other on a kept connection."""

    def __init__(self, replies: dict[bytes, bytes]) -> None:
        self._replies = replies
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP has no other
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole request head."""
        self._seen += data
        while _END in self._seen:
            head, _, self._seen = self._seen.partition(_END)
            path = head.split(b" ", 2)[1]
            reply = self._replies.get(path, b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
            self._transport.write(reply)


def black_holes(places: list[str], port: int) -> list[socket.socket]:
    """Answer sockets that take connections and never say a word."""
    holes = []
    for place in places:
        hole = socket.socket()
        hole.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hole.bind((place, port))
        hole.listen(_BACKLOG)
        holes.append(hole)
    return holes


async def serve(count: int, hung: int) -> None:
    """Serve ``count`` nodes, prefill and decode in turn, ``hung`` of them silent."""
    places = addresses(count)
    every = count // hung if hung else 0
    silent = set(places[every // 2 :: every][:hung]) if hung else set()
    loop = asyncio.get_running_loop()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    for role, group in (("prefill", places[0::2]), ("decode", places[1::2])):
        replies = recorded_answers(role)
        hosts = [place for place in group if place not in silent]
        await loop.create_server(partial(Node, replies), hosts, port, backlog=_BACKLOG)
    holes = black_holes(sorted(silent), port)
    said = {"port": port, "addresses": places, "hung": len(holes)}
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
