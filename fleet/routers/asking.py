"""Asks a router one thing, and words what it refused; waits between looks at it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from fleet.address import show_url
from fleet.contract import FleetError, Reply, RouterAccess, RouterError
from fleet.endpoint import lookalikes_of
from fleet.jsontext import NotJson, clean_text, parse_json
from fleet.reading import Worker

OK: Final = 200
NOT_FOUND: Final = 404
CONFLICT: Final = 409
ACCEPTED: Final = (200, 201, 202, 204)
_KEY_REFUSED: Final = (401, 403)
_REQUEST_TIMEOUT_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


async def ask(
    router: RouterAccess,
    method: str,
    path: str,
    body: Mapping[str, object] | None = None,
    *,
    timeout_s: float = _REQUEST_TIMEOUT_S,
) -> Reply:
    """Answer what a router says to one request. Raises RouterError where nothing came."""
    try:
        return await router.client.request(
            method,
            f"{router.url.rstrip('/')}{path}",
            json=body,
            key=router.key,
            timeout_s=timeout_s,
        )
    except FleetError as fault:
        raise RouterError(f"the router cannot be asked: {fault}") from None


async def ask_list(router: RouterAccess) -> object:
    """Answer the document at GET /workers. Raises RouterError."""
    reply = await ask(router, "GET", "/workers")
    if reply.status != OK:
        raise RouterError(refusal(router, "GET /workers", reply))
    try:
        return parse_json(reply.body)
    except NotJson as fault:
        raise unreadable(router, fault) from None


def unreadable(router: RouterAccess, fault: Exception) -> RouterError:
    """Answer the error that says why a worker list is none."""
    return RouterError(
        f"the worker list of {name_of(router)} cannot be read: {fault}; is it the address of a "
        "sglang-router, smg or vllm-router?"
    )


def refusal(router: RouterAccess, what: str, reply: Reply) -> str:
    """Answer in one sentence how a router refused, without any key of ours."""
    if reply.status in _KEY_REFUSED:
        return f"{name_of(router)} answered {what} with {reply.status}: give its control-plane key"
    said = said_by(router, reply)
    return f"{name_of(router)} answered {what} with {reply.status}: {said or 'no text'}"


def said_by(router: RouterAccess, reply: Reply) -> str:
    """Answer the first words of a reply, without any key of ours."""
    said = reply.body[:4000].decode("utf-8", errors="replace")
    for key in filter(None, (router.key, router.worker_key)):
        said = said.replace(key, "<key>")
    return clean_text(said, longest=200).strip()


def name_of(router: RouterAccess) -> str:
    """Answer how a router is called in errors."""
    return f"the router at {show_url(router.url)}"


def refuse_lookalikes(router: RouterAccess, listed: tuple[Worker, ...], worker: Worker) -> None:
    """Stop where a worker may be listed under another spelling. Raises RouterError."""
    for other in lookalikes_of(listed, worker.url):
        raise RouterError(
            f"{name_of(router)} lists {show_url(other.url)}, which may be {show_url(worker.url)} "
            "under another spelling: name the node as the router does"
        )


class Wait:
    """Pauses between looks at a router, longer each time, until its deadline."""

    def __init__(self, router: RouterAccess) -> None:
        self._router = router
        self._ends = time.monotonic() + router.deadline_s
        self._pause_s = _FIRST_PAUSE_S

    async def pause(self, state: str) -> None:
        """Wait a little. Raises RouterError with the state once the deadline is over."""
        left_s = self._ends - time.monotonic()
        if left_s <= 0:
            raise RouterError(
                f"{name_of(self._router)} {state} after {self._router.deadline_s:g} s: look into "
                "its log and at GET /workers"
            )
        await asyncio.sleep(min(self._pause_s, left_s))
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
