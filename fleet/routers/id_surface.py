"""The control plane of sglang-router and smg: /workers, where the router gives each an id.

Source: GET, POST and DELETE /workers of sglang-router 0.3.2 and smg 1.13.0, both really run.
"""

from __future__ import annotations

from urllib.parse import quote

from fleet.contract import RouterAccess, RouterError
from fleet.endpoint import place_of
from fleet.reading import Worker
from fleet.routers.asking import (
    ACCEPTED,
    CONFLICT,
    NOT_FOUND,
    ask,
    ask_list,
    refusal,
    unreadable,
)
from fleet.routers.worker_list import NotAList, read_workers, restorable_labels


class IdSurface:
    """Lists, drops and takes workers by id; see membership.Surface."""

    #: Seen in both: an addition that waits for its node is in no list, DELETE of its id answers 202
    #: and fails, and the worker enters as soon as the node answers.
    late_note = "the order stands and cannot be taken back: it enters once the node answers"

    async def listed(self, router: RouterAccess) -> tuple[Worker, ...]:
        """Answer every worker of the list; a list that is odd in any way is an error.

        A list that cannot be read must never look empty: an empty one says "out of rotation".
        Raises RouterError.
        """
        try:
            return read_workers(await ask_list(router), key_field="id")
        except NotAList as fault:
            raise unreadable(router, fault) from None

    async def drop(self, router: RouterAccess, worker: Worker) -> None:
        """Order a worker out by its id. Raises RouterError."""
        reply = await ask(router, "DELETE", _path(worker))
        if reply.status not in (*ACCEPTED, NOT_FOUND):
            raise RouterError(refusal(router, "DELETE /workers", reply))

    async def take(self, router: RouterAccess, worker: Worker) -> None:
        """Order a worker in; 409 says that it is there, or that it drains. Raises RouterError."""
        reply = await ask(router, "POST", "/workers", _order(router, worker))
        if reply.status not in (*ACCEPTED, CONFLICT):
            raise RouterError(refusal(router, "POST /workers", reply))

    async def has_forgotten(self, router: RouterAccess, worker: Worker) -> bool:
        """Answer whether the id is unknown by now. Raises RouterError."""
        return (await ask(router, "GET", _path(worker))).status == NOT_FOUND


def _path(worker: Worker) -> str:
    return f"/workers/{quote(worker.worker_id, safe='')}"


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
