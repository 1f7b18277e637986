"""Reads a router's circuit breakers from its metrics: an open one keeps a healthy worker idle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fleet.contract import FleetError, Outbound, RouterError
from fleet.endpoint import place_of

_OK: Final = 200
#: Source: /metrics of sglang-router 0.3.2, smg 1.13.0 and vllm-router 0.1.17.
_SERIES: Final = ("smg_worker_cb_state", "vllm_router_cb_state")
#: -1 is a worker that was removed.
_STATES: Final[Mapping[str, str]] = {"0": "closed", "1": "open", "2": "half open"}
_BEST_FIRST: Final = ("closed", "half open", "open")
_LONGEST_URL: Final = 500


async def breakers_of(client: Outbound, metrics_url: str) -> dict[str, str]:
    """Answer the state of each worker's breaker by its address. Raises RouterError.

    A router that shows none answers none: that says nothing about its breakers.
    """
    try:
        reply = await client.request("GET", metrics_url)
    except FleetError as fault:
        raise RouterError(f"the router's metrics cannot be asked: {fault}") from None
    if reply.status != _OK:
        raise RouterError(f"the router's metrics answered with {reply.status}")
    found: dict[str, str] = {}
    for line in reply.body.decode("utf-8", errors="replace").splitlines():
        if line.startswith(_SERIES):
            for place, state in _state_in(line).items():
                # Several ranks of one process are one place: the worst of them counts.
                found[place] = max(state, found.get(place, state), key=_BEST_FIRST.index)
    return found


def _state_in(line: str) -> dict[str, str]:
    """Answer what one line shows; nothing where it cannot be read."""
    _, opened, rest = line.partition('worker="')
    url, closed, tail = rest.partition('"')
    state = _STATES.get(tail.rpartition(" ")[2].strip().removesuffix(".0"))
    if not opened or not closed or state is None or len(url) > _LONGEST_URL:
        return {}
    return {place_of(url): state}
