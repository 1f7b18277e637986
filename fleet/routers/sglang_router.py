"""The router adapter for sglang-router 0.3.2.

Source: its /workers, as recorded and as run in tests/fleet/test_routers_run.py.
"""

from __future__ import annotations

from fleet.contract import ROUTERS, RouterAccess, RouterTraits
from fleet.reading import Worker
from fleet.routers.id_surface import IdSurface
from fleet.routers.membership import add_and_confirm, remove_and_confirm

_SURFACE = IdSurface()


@ROUTERS.register("sglang-router")
class SGLangRouter:
    """sglang-router 0.3.2. Membership lives in its memory: a restart forgets what was ordered."""

    title = "sglang-router"
    usual_engine = "sglang"

    def recognises(self, traits: RouterTraits) -> bool:
        """Answer whether entries have an id and no status; an unknown path says nothing."""
        if traits.has_workers:
            return "id" in traits.entry_fields and "status" not in traits.entry_fields
        return not traits.lists_urls and not traits.unknown_path_code

    def restore_note(self, worker: Worker) -> str:  # noqa: ARG002 - no worker is special here
        """Answer nothing: what was taken out can be put back."""
        return ""

    async def list_workers(self, router: RouterAccess) -> tuple[Worker, ...]:
        """Answer every worker that the router lists. Raises RouterError."""
        return await _SURFACE.listed(router)

    async def remove_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Take a worker out; returns when the router knows it no more. Raises RouterError."""
        await remove_and_confirm(_SURFACE, router, worker)

    async def add_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Put a worker in; returns when it is listed, healthy, of its role. Raises RouterError."""
        await add_and_confirm(_SURFACE, router, worker)
