"""`python -m drill`: runs the simulated cluster until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import sys

from drill.cluster import Cluster, Plan
from drill.options import plan_of, read_options
from drill.parent import parent_gone, tie_to_parent
from drill.protocol import explain
from drill.settings import WrongFigure
from drill.wire import PortTaken, dumps

SUMMARY = "runs the simulated cluster alone"

_EXPLAIN = "explain"
_EXIT_OK = 0
_EXIT_FAILED = 3
_EXIT_USAGE = 4


def main(argv: list[str]) -> int:
    """Run a cluster; answer 0 after a signal, 3 for a taken port, 4 for wrong figures.

    The word `explain` in front asks for the protocol model instead; it has codes of its own.
    """
    if argv[:1] == [_EXPLAIN]:
        return explain.main(argv[1:])
    try:
        options = read_options(argv)
        plan = plan_of(options)
    except WrongFigure as error:
        sys.stderr.write(f"drill: {error}\n")
        return _EXIT_USAGE
    parent = tie_to_parent() if options.die_with_parent else None
    try:
        asyncio.run(_serve(plan, parent))
    except PortTaken as error:
        sys.stderr.write(f"drill: {error}\n")
        return _EXIT_FAILED
    except KeyboardInterrupt:
        return _EXIT_OK
    return _EXIT_OK


async def _serve(plan: Plan, parent: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watch = None if parent is None else loop.create_task(_stop_with(parent, stop))
    async with Cluster(plan) as cluster:
        sys.stdout.write(dumps(cluster.description()) + "\n")
        sys.stdout.flush()
        await stop.wait()
    if watch is not None:
        watch.cancel()


async def _stop_with(parent: int, stop: asyncio.Event) -> None:
    await parent_gone(parent)
    stop.set()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
