"""Asks once more, without a key, for what showed secrets, and tells whether they lie open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from fleet.contract import ENGINES, Answer, FleetError, NodeCapture, Outbound
from fleet.live import DEFAULT_CONCURRENCY, DEFAULT_TIMEOUT_S, NodeAddress, capture_fleet
from fleet.reading import Reading

#: Ends the name under which a capture holds what a route answered without a key.
WITHOUT_KEY: Final = " without a key"
_KEY_REFUSED: Final = (401, 403)
_OK: Final = 200


async def capture_and_try(
    client: Outbound, nodes: Iterable[NodeAddress], *, key: str = "", admin_key: str = ""
) -> tuple[NodeCapture, ...]:
    """Answer captures of all nodes; a route that showed secrets is asked once without a key.

    Where no key is configured, what it showed was shown without one. GET alone is asked, and of
    its answer only the status and the names of fields are kept. Errors: as ``capture_fleet``.
    """
    captures = await capture_fleet(client, nodes, key=key, admin_key=admin_key)
    places = asyncio.Semaphore(DEFAULT_CONCURRENCY)
    has_key = bool(key or admin_key)

    async def tried(capture: NodeCapture) -> NodeCapture:
        async with places:
            return await _tried(client, capture, has_key=has_key)

    return tuple(await asyncio.gather(*map(tried, captures)))


async def _tried(client: Outbound, capture: NodeCapture, *, has_key: bool) -> NodeCapture:
    shown = {route: one for route, one in capture.responses.items() if one.exposed_secrets}
    found: dict[str, Answer] = {}
    for route, answer in shown.items():
        if not has_key:
            found[route + WITHOUT_KEY] = _kept(answer)
        elif route.startswith("GET "):
            found[route + WITHOUT_KEY] = await _ask(client, capture, route)
    return replace(capture, responses={**capture.responses, **found})


async def _ask(client: Outbound, capture: NodeCapture, route: str) -> Answer:
    url = f"{capture.url.rstrip('/')}{route.removeprefix('GET ')}"
    try:
        reply = await client.request("GET", url, timeout_s=DEFAULT_TIMEOUT_S)
    except FleetError as fault:
        return Answer(status=0, error=str(fault), outcome=fault.outcome)
    answer = Answer(status=reply.status, text=reply.body.decode("utf-8", errors="replace"))
    return _kept(ENGINES.get(capture.engine).allow(route, answer))


def _kept(answer: Answer) -> Answer:
    """Answer what may be kept of an answer without a key: no body, not even an allowed part."""
    is_empty = answer.json is None and answer.text is None
    unread = "its body could not be read" if answer.status == _OK and is_empty else ""
    return Answer(
        status=answer.status,
        error=answer.error or unread,
        is_redacted=True,
        exposed_secrets=answer.exposed_secrets,
    )


def read_capture(capture: NodeCapture) -> Reading:
    """Answer the reading that a capture amounts to, and whether its secrets lie open.

    Errors: UnknownKey where no adapter has the node's engine.
    """
    reading = ENGINES.get(capture.engine).read(capture)
    return replace(reading, secrets_open=_lies_open(capture.responses))


def _lies_open(responses: Mapping[str, Answer]) -> bool | None:
    """Answer whether a secret was shown without a key; None where that is not known.

    A refusal is known; a time-out, a fault or a limit is not. A route that shows secrets with a
    key and was not asked without one leaves it open.
    """
    shown = [
        route
        for route, one in responses.items()
        if one.exposed_secrets and not route.endswith(WITHOUT_KEY)
    ]
    without = {route: responses.get(route + WITHOUT_KEY) for route in shown}
    if any(one is not None and one.exposed_secrets for one in without.values()):
        return True
    if without and all(one is not None and _keeps_it(one) for one in without.values()):
        return False
    return None


def _keeps_it(answer: Answer) -> bool:
    """Answer whether a route refused, or answered without any secret, who came without a key."""
    is_word = answer.status in {*_KEY_REFUSED, _OK} and not answer.error
    return is_word and not answer.exposed_secrets
