"""The router adapter for sglang-router 0.3.2, whose REST surface smg 1.x keeps.

Source: GET, POST and DELETE /workers as recorded from 0.3.2 and 1.13.0.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from fleet.address import show_url
from fleet.contract import ROUTERS, FleetError, Reply, RouterAccess, RouterError
from fleet.endpoint import lookalikes_of, place_of, workers_at
from fleet.jsontext import NotJson, clean_text, parse_json
from fleet.reading import Worker
from fleet.routers.worker_list import NotAList, read_workers, restorable_labels

_OK: Final = 200
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_ACCEPTED: Final = (200, 201, 202, 204)
_KEY_REFUSED: Final = (401, 403)
_REQUEST_TIMEOUT_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


@ROUTERS.register("sglang-router")
class SGLangRouter:
    """sglang-router 0.3.2 and smg 1.x. Membership lives in its memory: a restart forgets it."""

    title = "sglang-router"

    async def list_workers(self, router: RouterAccess) -> tuple[Worker, ...]:
        """Answer every worker that the router lists; a list that is odd in any way is an error.

        A list that cannot be read must never look empty: an empty one says "out of rotation".
        Raises RouterError.
        """
        reply = await _ask(router, "GET", "/workers")
        if reply.status != _OK:
            raise RouterError(_refusal(router, "GET /workers", reply))
        try:
            return read_workers(parse_json(reply.body))
        except (NotJson, NotAList) as fault:
            raise RouterError(
                f"the worker list of {_name(router)} cannot be read: {fault}; is it a "
                "sglang-router or smg address?"
            ) from None

    async def remove_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Ask the router to drop a worker; returns when it lists nothing there any more.

        A worker that is not listed is gone already. Raises RouterError.
        """
        wait = _Wait(router)
        dropped: set[str] = set()
        while True:
            listed = await self.list_workers(router)
            there = workers_at(listed, worker.url)
            if not there and await self._are_unknown(router, dropped):
                _refuse_lookalikes(router, listed, worker)
                return
            for one in there:
                if one.worker_id not in dropped:
                    await self._drop(router, one)
                    dropped.add(one.worker_id)
            await wait.pause(f"still knows {show_url(worker.url)}")

    async def add_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Ask the router to take a worker; returns when it is listed, healthy and of its role.

        A repeated order does no harm: the router keeps one worker an address. Raises RouterError.
        """
        wait = _Wait(router)
        while True:
            listed = await self.list_workers(router)
            there = workers_at(listed, worker.url)
            if any(_is_in_service(one, worker) for one in there):
                return
            if not there:
                _refuse_lookalikes(router, listed, worker)
                await self._post(router, worker)
            await wait.pause(f"does not serve {show_url(worker.url)} yet ({_state_of(there)})")

    async def _are_unknown(self, router: RouterAccess, worker_ids: set[str]) -> bool:
        """Answer whether the router knows none of these ids any more."""
        for worker_id in worker_ids:
            reply = await _ask(router, "GET", f"/workers/{quote(worker_id, safe='')}")
            if reply.status != _NOT_FOUND:
                return False
        return True

    async def _drop(self, router: RouterAccess, worker: Worker) -> None:
        path = f"/workers/{quote(worker.worker_id, safe='')}"
        reply = await _ask(router, "DELETE", path)
        if reply.status not in (*_ACCEPTED, _NOT_FOUND):
            raise RouterError(_refusal(router, "DELETE /workers", reply))

    async def _post(self, router: RouterAccess, worker: Worker) -> None:
        """Order a worker; 409 says that its predecessor still drains (smg 1.x, about 5 s)."""
        reply = await _ask(router, "POST", "/workers", _order(router, worker))
        if reply.status not in (*_ACCEPTED, _CONFLICT):
            raise RouterError(_refusal(router, "POST /workers", reply))


class _Wait:
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
                f"{_name(self._router)} {state} after {self._router.deadline_s:g} s: look into its "
                "log and at GET /workers"
            )
        await asyncio.sleep(min(self._pause_s, left_s))
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)


def _state_of(there: tuple[Worker, ...]) -> str:
    if not there:
        return "it is not listed"
    return "; ".join(
        f"listed as {one.role or 'unknown'}, {'healthy' if one.is_healthy else 'not healthy'}"
        for one in there
    )


def _is_in_service(listed: Worker, wanted: Worker) -> bool:
    if not listed.is_healthy or listed.role is None:
        return False
    return wanted.role is None or listed.role is wanted.role


def _order(router: RouterAccess, worker: Worker) -> dict[str, object]:
    """Answer what to post: all that was recorded, without what the router finds out itself."""
    order: dict[str, object] = {"url": place_of(worker.url)}
    if worker.role is not None:
        order["worker_type"] = "regular" if worker.role == "unified" else str(worker.role)
    if worker.bootstrap_port is not None:
        order["bootstrap_port"] = worker.bootstrap_port
    if worker.model:
        order["model_id"] = worker.model
    if worker.priority is not None:
        order["priority"] = worker.priority
    if worker.cost is not None:
        order["cost"] = worker.cost
    if labels := restorable_labels(worker.labels):
        order["labels"] = labels
    if router.worker_key:
        order["api_key"] = router.worker_key
    return order


def _refuse_lookalikes(router: RouterAccess, listed: tuple[Worker, ...], worker: Worker) -> None:
    for other in lookalikes_of(listed, worker.url):
        raise RouterError(
            f"{_name(router)} lists {show_url(other.url)}, which may be {show_url(worker.url)} "
            "under another spelling: name the node as the router does"
        )


async def _ask(
    router: RouterAccess, method: str, path: str, body: Mapping[str, object] | None = None
) -> Reply:
    try:
        return await router.client.request(
            method,
            f"{router.url.rstrip('/')}{path}",
            json=body,
            key=router.key,
            timeout_s=_REQUEST_TIMEOUT_S,
        )
    except FleetError as fault:
        raise RouterError(f"the router cannot be asked: {fault}") from None


def _refusal(router: RouterAccess, what: str, reply: Reply) -> str:
    if reply.status in _KEY_REFUSED:
        return f"{_name(router)} answered {what} with {reply.status}: give its control-plane key"
    said = reply.body[:4000].decode("utf-8", errors="replace")
    for key in filter(None, (router.key, router.worker_key)):
        said = said.replace(key, "<key>")
    said = clean_text(said, longest=200).strip()
    return f"{_name(router)} answered {what} with {reply.status}: {said or 'no text'}"


def _name(router: RouterAccess) -> str:
    return f"the router at {show_url(router.url)}"
