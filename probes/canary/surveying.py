"""Reads the fleet live: every node that was named, every worker that the router lists, the list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from common.registry import UnknownKey, load_plugins
from fleet.contract import ROUTERS, FleetError, Outbound, RouterAccess
from fleet.endpoint import is_same_place
from fleet.keyless import capture_and_try, read_capture
from fleet.live import NodeAddress
from fleet.reading import Role, Worker
from fleet.routers.recognise import is_no_router, recognise
from probes.canary.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSurveyor:
    """Asks through the outbound client. ``router_kind`` empty: it is recognised by its answers.

    Keys are never shown. Without a router address the list counts as unreadable. A unified node
    may be named as the router too: where no router answers there, it is the only one that customers
    reach by this address, so the list is this node, in rotation.
    """

    client: Outbound = field(repr=False)
    engine: str
    nodes: tuple[NodeAddress, ...]
    router_url: str
    router_kind: str = ""
    key: str = field(default="", repr=False)
    admin_key: str = field(default="", repr=False)
    router_key: str = field(default="", repr=False)

    async def survey(self) -> Survey:
        """Answer what is there now. Never raises: what could not be read is in the answer."""
        load_plugins("fleet.engines")
        kind, listed, problem = await self._list()
        nodes = nodes_to_read(self.nodes, listed or (), engine=self.engine)
        captures = await capture_and_try(self.client, nodes, key=self.key, admin_key=self.admin_key)
        return Survey(
            readings=tuple(map(read_capture, captures)),
            listed=listed,
            listing_problem=problem,
            named=tuple(node.url for node in self.nodes),
            router_kind=kind,
        )

    async def _list(self) -> tuple[str, tuple[Worker, ...] | None, str]:
        """Answer the router's kind, its list, and why there is none."""
        if not self.router_url:
            return "", None, "no router address was given"
        load_plugins("fleet.routers")
        router = RouterAccess(url=self.router_url, client=self.client, key=self.router_key)
        kind = self.router_kind
        try:
            if not kind and (node := self._front_door()) and await self._is_no_router():
                own = Worker(worker_id=node.name, url=node.url, role=node.role, is_healthy=True)
                return node.engine, (own,), ""
            kind = kind or await recognise(self.client, self.router_url, self.router_key)
            return kind, await ROUTERS.get(kind).list_workers(router), ""
        except (FleetError, UnknownKey) as fault:
            return kind, None, str(fault)

    def _front_door(self) -> NodeAddress | None:
        """Answer the one node that was named, where it is unified and named as the router too."""
        if len(self.nodes) != 1 or self.nodes[0].role is not Role.UNIFIED:
            return None
        return self.nodes[0] if is_same_place(self.nodes[0].url, self.router_url) else None

    async def _is_no_router(self) -> bool:
        return await is_no_router(self.client, self.router_url, self.router_key)


def nodes_to_read(
    named: Sequence[NodeAddress], listed: Sequence[Worker], *, engine: str
) -> tuple[NodeAddress, ...]:
    """Answer the named nodes and, after them, every listed worker that is none of them.

    A worker whose role the router does not tell cannot be read as anything; it is left out here,
    and safety rule 1 objects to it.
    """
    nodes = list(named)
    for worker in listed:
        known = any(is_same_place(worker.url, node.url) for node in nodes)
        if known or worker.role is None:
            continue
        number = 1 + sum(node.role is worker.role for node in nodes)
        nodes.append(
            NodeAddress(
                name=f"{worker.role}-{number}",
                url=worker.url,
                role=worker.role,
                engine=engine,
                bootstrap_port=worker.bootstrap_port,
            )
        )
    return tuple(nodes)
