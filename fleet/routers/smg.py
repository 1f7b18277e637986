"""The router adapter for smg 1.13, the line that follows sglang-router.

A removed worker drains for about 5 s: it stays listed, not healthy, and POST answers 409 until its
id is gone; both are waited for. PUT wants a whole worker and PATCH a part: neither is needed.
Source: its /workers, as recorded and as run in tests/fleet/test_routers_run.py.
"""

from __future__ import annotations

from fleet.contract import ROUTERS, RouterAccess, RouterTraits
from fleet.reading import Worker
from fleet.routers.id_surface import IdSurface
from fleet.routers.membership import add_and_confirm, remove_and_confirm

_SURFACE = IdSurface()
#: What smg answers on a path that it does not know (0.3.2 answers an empty body).
_UNKNOWN_PATH = "unknown_url"


@ROUTERS.register("smg")
class ShepherdModelGateway:
    """smg 1.x. Membership lives in its memory: a restart forgets what was ordered."""

    title = "smg"
    usual_engine = "sglang"

    def recognises(self, traits: RouterTraits) -> bool:
        """Answer whether entries have an id and a status; an unknown path says so in JSON."""
        if traits.has_workers:
            return {"id", "status"} <= traits.entry_fields
        return traits.unknown_path_code == _UNKNOWN_PATH

    def restore_note(self, worker: Worker) -> str:  # noqa: ARG002 - no worker is special here
        """Answer nothing: what was taken out can be put back."""
        return ""

    async def list_workers(self, router: RouterAccess) -> tuple[Worker, ...]:
        """Answer every worker that the router lists, draining ones too. Raises RouterError."""
        return await _SURFACE.listed(router)

    async def remove_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Take a worker out; returns when it has drained and is gone. Raises RouterError."""
        await remove_and_confirm(_SURFACE, router, worker)

    async def add_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Put a worker in; returns when it is listed, ready and of its role. Raises RouterError."""
        await add_and_confirm(_SURFACE, router, worker)
