"""Takes requests of any size and answers each at once; a process of its own, never measured.

Prints its port once it listens, and ends with its stdin.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

_ANSWER: Final = b'{"text":"x","meta_info":{"prompt_tokens":1,"finish_reason":{"type":"length"}}}'
_REPLY: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_ANSWER), _ANSWER)
)
_PART_BYTES: Final = 1 << 20


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request after the other, and answer each."""
    try:
        while True:
            await _read_request(reader)
            writer.write(_REPLY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _read_request(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    left = next(int(value) for name, _, value in lines if name == b"content-length")
    while left:
        part = await reader.read(min(left, _PART_BYTES))
        if not part:
            raise ConnectionError
        left -= len(part)


async def main() -> None:
    """Serve until stdin ends."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2 * _PART_BYTES)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
