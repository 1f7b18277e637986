"""Sends one long prompt again and again by one way; a process of its own, so that its CPU counts.

Prints one line of JSON: CPU seconds of the cheapest sending, size of the body, memory added.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import httpx

from fleet.asking import Target, send
from fleet.client import OutboundClient
from fleet.dialects import DIALECTS, Draft, Wish, draft_of
from fleet.hearing import Ear
from fleet.speakers import RouterSpeaker

_VOCABULARY: Final = 128_000
_TIMEOUT_S: Final = 120.0
_JSON: Final = {"content-type": "application/json"}

_OK: Final = 200

#: Answers the status that came back.
Sending = Callable[[], Awaitable[int]]


def token_ids(count: int) -> list[int]:
    """Answer as many ids as a large vocabulary has them."""
    dice = random.Random(1)  # noqa: S311 - no secret
    return [dice.randrange(_VOCABULARY) for _ in range(count)]


def draft(ids: list[int]) -> Draft:
    """Answer the request as the product writes it."""
    return draft_of(DIALECTS["sglang"], Wish(token_ids=ids, text="", max_new_tokens=8))


@asynccontextmanager
async def raw(url: str, ids: list[int]) -> AsyncIterator[Sending]:
    """Send ready bytes with aiohttp as it comes, over a kept connection."""
    body = draft(ids).body
    async with aiohttp.ClientSession() as session:

        async def once() -> int:
            async with session.post(f"{url}/generate", data=body, headers=_JSON) as response:
                await response.read()
                return response.status

        yield once


@asynccontextmanager
async def plain_httpx(url: str, ids: list[int]) -> AsyncIterator[Sending]:
    """Send an object with httpx, which writes the JSON itself."""
    wish = {"input_ids": ids, "sampling_params": {"max_new_tokens": 8, "temperature": 0}}
    async with httpx.AsyncClient(timeout=_TIMEOUT_S) as client:

        async def once() -> int:
            return (await client.post(f"{url}/generate", json=wish)).status_code

        yield once


@asynccontextmanager
async def built(url: str, ids: list[int]) -> AsyncIterator[Sending]:
    """Send a request that is written already, by the product's way."""
    ready = draft(ids)
    async with OutboundClient() as client:
        target = Target(client=client, url=url, dialect=DIALECTS["sglang"], timeout_s=_TIMEOUT_S)

        async def once() -> int:
            return (await send(target, ready, Ear())).status

        yield once


@asynccontextmanager
async def whole(url: str, ids: list[int]) -> AsyncIterator[Sending]:
    """Write and send, as a speaker does."""
    async with OutboundClient() as client:
        speaker = RouterSpeaker(client=client, router_url=url)

        async def once() -> int:
            came = await speaker.ask(
                token_ids=ids, max_new_tokens=8, tenant_key="k", timeout_s=_TIMEOUT_S
            )
            return came.status

        yield once


WAYS: Final = {"raw": raw, "httpx": plain_httpx, "built": built, "whole": whole}


async def measure(wish: Mapping[str, Any]) -> dict[str, float]:
    """Answer the cheapest of some sendings, after one that warms up."""
    ids = token_ids(int(wish["tokens"]))
    size = len(draft(ids).body)
    async with WAYS[wish["way"]](wish["url"], ids) as once:
        if not wish["is_warm"]:
            return {"body_bytes": size, "added_bytes": await _memory_of(once), "cpu_s": 0.0}
        took = [await _cpu_of(once) for _ in range(1 + int(wish["rounds"]))]
    return {"cpu_s": min(took[1:]), "body_bytes": size, "added_bytes": 0}


async def _cpu_of(once: Sending) -> float:
    before = time.process_time()
    await _send_well(once)
    return time.process_time() - before


async def _send_well(once: Sending) -> None:
    status = await once()
    if status != _OK:
        raise RuntimeError(f"the sink did not answer as it should: {status}")


async def _memory_of(once: Sending) -> float:
    """Answer by how much the highest memory of this process rose. Unit: bytes. Linux only."""
    before = _forget_highest()
    await _send_well(once)
    return _status("VmHWM") - before


def _forget_highest() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def main(wish: Mapping[str, Any]) -> None:
    """Measure one way and print what it took."""
    # What aiohttp warns of, a large body in one piece, is just what is compared with.
    warnings.simplefilter("ignore", ResourceWarning)
    sys.stdout.write(f"{json.dumps(asyncio.run(measure(wish)))}\n")


if __name__ == "__main__":
    main(json.load(sys.stdin))
