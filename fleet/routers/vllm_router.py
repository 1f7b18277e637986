"""The router adapter for vllm-router 0.1.17: the address is the key of a worker.

Source: /workers, /add_worker and /remove_worker, as recorded and as run in
tests/fleet/test_routers_run.py. Paths that it does not know it sends on to a worker.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from fleet.address import show_url
from fleet.contract import ROUTERS, RouterAccess, RouterError, RouterTraits
from fleet.endpoint import place_of
from fleet.reading import Role, Worker
from fleet.routers.asking import NOT_FOUND, OK, ask, ask_list, name_of, refusal, unreadable
from fleet.routers.membership import add_and_confirm, remove_and_confirm
from fleet.routers.worker_list import NotAList, read_workers

_BAD_REQUEST: Final = 400
#: "Worker URL already exists": a repeated order.
_IS_THERE: Final = b"already exists"
#: "PD router requires specific add_prefill_server or add_decode_server methods", which it has not.
_IS_SPLIT: Final = b"requires specific add_prefill_server"


class UrlSurface:
    """Lists, drops and takes workers by address; see membership.Surface."""

    late_note = ""

    async def listed(self, router: RouterAccess) -> tuple[Worker, ...]:
        """Answer every worker of the list; odd ones are an error. Raises RouterError."""
        try:
            return read_workers(await ask_list(router), key_field="url")
        except NotAList as fault:
            raise unreadable(router, fault) from None

    async def drop(self, router: RouterAccess, worker: Worker) -> None:
        """Order a worker out as the list spells it. Raises RouterError."""
        reply = await ask(router, "POST", f"/remove_worker?url={quote(worker.url, safe='')}")
        if reply.status not in {OK, NOT_FOUND}:
            raise RouterError(refusal(router, "POST /remove_worker", reply))

    async def take(self, router: RouterAccess, worker: Worker) -> None:
        """Order a worker in; the router answers when it is healthy. Raises RouterError."""
        path = f"/add_worker?url={quote(place_of(worker.url), safe='')}"
        try:
            reply = await ask(router, "POST", path, timeout_s=max(router.deadline_s, 1.0))
        except RouterError as fault:
            raise RouterError(
                f"{fault}; it answers an order only once the node is healthy: see whether it "
                f"reaches {show_url(worker.url)}"
            ) from None
        if reply.status == OK or (reply.status == _BAD_REQUEST and _IS_THERE in reply.body):
            return
        if reply.status == _BAD_REQUEST and _IS_SPLIT in reply.body:
            raise RouterError(
                f"{name_of(router)} takes no prefill or decode worker while it runs: restart it "
                f"with {show_url(worker.url)} on its command line, then try again"
            )
        raise RouterError(refusal(router, "POST /add_worker", reply))

    async def has_forgotten(self, router: RouterAccess, worker: Worker) -> bool:  # noqa: ARG002
        """Answer yes: the list is all that this router knows of its workers."""
        return True


_SURFACE = UrlSurface()


@ROUTERS.register("vllm-router")
class VLLMRouter:
    """vllm-router 0.1.17. Membership lives in its memory: a restart forgets what was ordered."""

    title = "vllm-router"
    usual_engine = "vllm"

    def recognises(self, traits: RouterTraits) -> bool:
        """Answer whether entries have no id; without entries, whether addresses are listed."""
        if traits.has_workers:
            return "id" not in traits.entry_fields and "url" in traits.entry_fields
        return traits.lists_urls

    def restore_note(self, worker: Worker) -> str:
        """Answer what putting a worker back takes, where an order is not enough."""
        if worker.role in {Role.PREFILL, Role.DECODE}:
            return (
                f"vllm-router takes no {worker.role} worker while it runs: putting "
                f"{show_url(worker.url)} back needs a restart of the router"
            )
        return ""

    async def list_workers(self, router: RouterAccess) -> tuple[Worker, ...]:
        """Answer every worker that the router lists. Raises RouterError."""
        return await _SURFACE.listed(router)

    async def remove_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Take a worker out; returns when the router lists it no more. Raises RouterError."""
        await remove_and_confirm(_SURFACE, router, worker)

    async def add_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Put a worker in; returns when it is listed and healthy. Raises RouterError.

        A split router takes none: it must be restarted, and the error says so.
        """
        await add_and_confirm(_SURFACE, router, worker)
