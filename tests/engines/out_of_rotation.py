"""Takes every worker out of a router by the product's own adapter, and puts all back when told.

Usage: ``python out_of_rotation.py ROUTER``; it says ``out``, reads to the end of its standard
input, and says ``back``. It runs on the network of a lane.
"""

from __future__ import annotations

import asyncio
import sys

from common.registry import load_plugins
from fleet.address import policy_from_environment
from fleet.client import OutboundClient
from fleet.contract import ROUTERS, RouterAccess

KIND = "sglang-router"


async def take_out_and_back(url: str) -> None:
    """Hold all workers out of a router until standard input ends. Raises RouterError."""
    load_plugins("fleet.routers")
    adapter = ROUTERS.get(KIND)
    async with OutboundClient(policy=policy_from_environment({})) as client:
        router = RouterAccess(url=url, client=client)
        workers = await adapter.list_workers(router)
        for worker in workers:
            await adapter.remove_worker(router, worker)
        print("out", flush=True)  # noqa: T201 - its answer
        await asyncio.to_thread(sys.stdin.read)
        for worker in workers:
            await adapter.add_worker(router, worker)
        print("back", flush=True)  # noqa: T201 - its answer


if __name__ == "__main__":
    asyncio.run(take_out_and_back(sys.argv[1]))
