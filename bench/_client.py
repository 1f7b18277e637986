"""Asks nodes and does nothing with the answers: raw aiohttp, or the product's outbound client.

A process of its own, so that its CPU time is the client's alone. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import aiohttp

from fleet.client import OutboundClient

#: As a sweep asks (settings.SWEEP_TIMEOUT_S by default); longer ones take another way.
SWEEP_TIMEOUT_S = 5.0
Ask = Callable[[str], Awaitable[int]]


async def over_all(ask: Ask, urls: Sequence[str], concurrency: int) -> int:
    """Ask every node, at most ``concurrency`` at a time; answers the bytes that came."""
    places = asyncio.Semaphore(concurrency)

    async def one(url: str) -> int:
        async with places:
            return await ask(url)

    return sum(await asyncio.gather(*map(one, urls)))


async def raw(urls: Sequence[str], paths: Sequence[str], concurrency: int) -> int:
    """Ask with aiohttp as it comes, over kept connections."""
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(url: str) -> int:
            size = 0
            for path in paths:
                async with session.get(url + path) as response:
                    size += len(await response.read())
            return size

        return await over_all(ask, urls, concurrency)


async def fetch(urls: Sequence[str], paths: Sequence[str], concurrency: int) -> int:
    """Ask with the product's client: policy, caps, time-outs, errors in words."""
    async with OutboundClient(concurrency=concurrency, keep_alive_s=0.5) as client:

        async def ask(url: str) -> int:
            size = 0
            for path in paths:
                reply = await client.request("GET", url + path, timeout_s=SWEEP_TIMEOUT_S)
                size += len(reply.body)
            return size

        return await over_all(ask, urls, concurrency)


def main(wish: dict[str, object]) -> None:
    """Run one way of asking and print what it took."""
    way = {"raw": raw, "fetch": fetch}[str(wish["way"])]
    urls, paths = wish["urls"], wish["paths"]
    assert isinstance(urls, list)  # noqa: S101 - our own parent wrote it
    assert isinstance(paths, list)  # noqa: S101 - as above
    cpu, wall = time.process_time(), time.monotonic()
    size = asyncio.run(way(urls, paths, int(str(wish["concurrency"]))))
    took = {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.monotonic() - wall,
        "rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "bytes": size,
    }
    sys.stdout.write(f"{json.dumps(took)}\n")


if __name__ == "__main__":
    main(json.load(sys.stdin))
