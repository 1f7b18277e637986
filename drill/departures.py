"""What the router does with the two legs of a request whose client left before the answer."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any


class Aborts(StrEnum):
    """Which legs a router gives up for a client that left.

    ``FIRST_TOKEN`` lets the prompt come through and gives decode up then, as a load balancer that
    makes no needless aborts; ``BOTH`` is what dropping the client's handler does.
    """

    BOTH = "both"
    FIRST_TOKEN = "first-token"  # noqa: S105 - a token of text
    NONE = "none"
    PREFILL = "prefill"
    DECODE = "decode"


class Departures:
    """Gives legs up, or keeps them alive without their client; one for a router.

    It acts on whole answers. A stream always ends with its client.
    """

    def __init__(self, aborts: Aborts = Aborts.BOTH) -> None:
        self.aborts = aborts
        self._kept: set[asyncio.Task[Any]] = set()

    def leave(self, prefill: asyncio.Task[Any], decode: asyncio.Task[Any]) -> None:
        """Do with both legs what this router does once their client has left."""
        aborts = self.aborts
        if aborts in {Aborts.BOTH, Aborts.PREFILL}:
            prefill.cancel()
        if aborts in {Aborts.BOTH, Aborts.DECODE}:
            decode.cancel()
        if aborts is Aborts.FIRST_TOKEN:
            prefill.add_done_callback(lambda _done: decode.cancel())
        for leg in (prefill, decode):
            self._kept.add(leg)
            leg.add_done_callback(self._kept.discard)

    async def close(self) -> None:
        """End every leg that still runs."""
        kept = list(self._kept)
        for leg in kept:
            leg.cancel()
        await asyncio.gather(*kept, return_exceptions=True)
