"""A whole cluster in one process: router, control endpoint and nodes, each on its own port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from drill.control_http import Restarting, control_app
from drill.departures import Aborts
from drill.engine import Sight
from drill.fabric import Fabric
from drill.gateway import Gateway
from drill.guards import Guard, GuardSwitches
from drill.node import Node
from drill.node_http import node_app
from drill.router_http import Router
from drill.runtime import Runtime
from drill.settings import NodeSettings, Role, check
from drill.styles import Style
from drill.wire import Port
from drill.workers import Worker
from drill.world import World

_START_S = 0.3
"""How long a node that was restarted refuses connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Someone who uses the cluster, with a key of the router."""

    name: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a cluster is started with."""

    nodes: Sequence[NodeSettings]
    tenants: Sequence[Tenant]
    scenario: str | None = None
    base_port: int = 0
    router_key: str | None = field(default=None, repr=False)
    token_s: float = 0.0
    start_s: float = _START_S
    router_aborts: Aborts = Aborts.BOTH
    style: Style = Style.PLAIN
    switches: Mapping[Guard, bool] = field(default_factory=dict)
    has_gateway: bool = False


class Cluster:
    """The running cluster. Use as an asynchronous context manager."""

    def __init__(self, plan: Plan) -> None:
        for settings in plan.nodes:
            check(settings)
        self.plan = plan
        self.sight = Sight(plan.style)
        fabric = Fabric()
        self.world = World(switches=GuardSwitches(plan.switches))
        self._runtime = Runtime(self._engines, token_s=plan.token_s)
        self.nodes = {
            settings.name: Node(
                settings,
                fabric=fabric,
                sight=self.sight,
                wake=self._runtime.wake,
                world=self.world,
            )
            for settings in plan.nodes
        }
        numbers = range(plan.base_port, plan.base_port + 2 + len(plan.nodes))
        ports = [Port(number if plan.base_port else 0) for number in numbers]
        self.router_port, self.control_port = ports[:2]
        self.node_ports = dict(zip(self.nodes, ports[2:], strict=True))
        self.router = Router(
            tenant_keys=[tenant.api_key for tenant in plan.tenants],
            router_key=plan.router_key,
            aborts=plan.router_aborts,
        )
        self._behind = Port() if plan.has_gateway else self.router_port
        self.gateway = self._gateway() if plan.has_gateway else None
        self._starting: set[str] = set()
        self._loop: asyncio.Task[None] | None = None

    def _gateway(self) -> Gateway:
        keys = [tenant.api_key for tenant in self.plan.tenants]
        return Gateway(self._behind, self.world.switches, tenant_keys=keys)

    def _engines(self) -> list[Any]:
        return [node.engine for node in self.nodes.values() if node.name not in self._starting]

    async def __aenter__(self) -> Self:
        """Open all ports. Raises PortTaken."""
        ports = [self.router_port, self.control_port, *self.node_ports.values()]
        try:
            for port in ports:
                port.claim()
            self._loop = asyncio.get_running_loop().create_task(self._runtime.run())
            for name, node in self.nodes.items():
                await self.node_ports[name].open(node_app(node, self.node_ports[name]))
            await self.control_port.open(control_app(self))
            await self._behind.open(self.router.app())
            if self.gateway is not None:
                await self.router_port.open(self.gateway.app())
        except BaseException:
            await self.__aexit__()
            raise
        await self._register_all()
        return self

    async def __aexit__(self, *_details: object) -> None:
        """Close all ports and stop the engines."""
        for node in self.nodes.values():
            node.kill()
        ports = [self.router_port, *self.node_ports.values(), self.control_port]
        await asyncio.gather(*(port.close() for port in ports))
        await self._behind.close()
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop
        self.world.close()

    async def _register_all(self) -> None:
        workers = [
            self.router.add(
                Worker(
                    url=self.node_ports[name].url,
                    wanted_type=str(node.settings.role),
                    bootstrap_port=_bootstrap_port(node.settings),
                    api_key=node.settings.api_key,
                )
            )
            for name, node in self.nodes.items()
            if node.settings.role is not Role.UNIFIED
        ]
        await asyncio.gather(*(worker.registered.wait() for worker in workers))

    def set_style(self, style: Style) -> None:
        """Switch how slots look to the model that the request did not write."""
        self.sight.style = style

    def set_guards(self, wanted: Mapping[Guard, bool]) -> None:
        """Switch guards on and off on every node, whatever their versions have."""
        self.world.switches.switch(wanted)
        self._runtime.wake()

    def set_aborts(self, aborts: Aborts) -> None:
        """Switch what the router does for a client that left."""
        self.router.departures.aborts = aborts

    async def restart(self, name: str, settings: NodeSettings) -> None:
        """End a node's process and start another with these figures. Raises Restarting."""
        if name in self._starting:
            raise Restarting(f"node {name} is being restarted already")
        node, port = self.nodes[name], self.node_ports[name]
        self._starting.add(name)
        try:
            node.kill()
            await port.close()
            await asyncio.sleep(self.plan.start_s)
            node.start_again(settings)
            await port.open(node_app(node, port))
        finally:
            self._starting.discard(name)
        self._runtime.wake()

    def description(self) -> dict[str, Any]:
        """Answer what the first line on stdout says."""
        settings = self.plan.nodes[0]
        return {
            "router": self.router_port.url,
            "control": self.control_port.url,
            "nodes": [
                {
                    "name": name,
                    "role": str(node.settings.role),
                    "url": self.node_ports[name].url,
                    "bootstrap_port": _bootstrap_port(node.settings),
                }
                for name, node in self.nodes.items()
            ],
            "tenants": [
                {"name": tenant.name, "api_key": tenant.api_key} for tenant in self.plan.tenants
            ],
            "model": settings.model,
            "context": settings.context,
            "page_size": settings.page_size,
            "scenario": self.plan.scenario,
            "guards": self._guards(),
        }

    def _guards(self) -> list[str]:
        """Answer the guards that stand on every node."""
        of_nodes = [set(node.engine.guards.names) for node in self.nodes.values()]
        return [str(guard) for guard in Guard if all(str(guard) in names for names in of_nodes)]

    def state(self) -> dict[str, Any]:
        """Answer what the control endpoint says; no key is in it."""
        described = self.description()
        return {
            "scenario": self.plan.scenario,
            "guards": described["guards"],
            "switched": {str(one): on for one, on in self.world.switches.wanted.items()},
            "style": str(self.sight.style),
            "router_aborts": str(self.router.departures.aborts),
            "model": described["model"],
            "router": described["router"],
            "nodes": [entry | self._figures(entry["name"]) for entry in described["nodes"]],
        }

    def _figures(self, name: str) -> dict[str, Any]:
        node = self.nodes[name]
        return {
            "engine_version": node.settings.engine_version,
            "pool": node.settings.pool,
            "context": node.settings.context,
            "page_size": node.settings.page_size,
            "guards": list(node.engine.guards.names),
            "starts": node.starts,
            "state": "starting" if name in self._starting else "serving",
        }


def _bootstrap_port(settings: NodeSettings) -> int | None:
    return settings.bootstrap_port if settings.role is Role.PREFILL else None
