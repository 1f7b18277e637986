"""A drill cluster in this process, on ports of the system's choice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from drill.cluster import Cluster, Plan, Tenant
from drill.settings import NodeSettings, Role
from tests.drill.rehearsal import Rehearsal

TENANT_A = Tenant(name="tenant-a", api_key="key-of-a")
TENANT_B = Tenant(name="tenant-b", api_key="key-of-b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server of the drill answered."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A running cluster and a client for it."""

    cluster: Cluster
    session: aiohttp.ClientSession

    def url(self, name: str) -> str:
        if name == "router":
            return self.cluster.router_port.url
        if name == "control":
            return self.cluster.control_port.url
        return self.cluster.node_ports[name].url

    async def ask(
        self, method: str, target: str, path: str, body: object = None, key: str | None = None
    ) -> Answer:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        url = self.url(target) + path
        async with self.session.request(method, url, json=body, headers=headers) as reply:
            text = await reply.text()
            value = json.loads(text) if text[:1] in ("{", "[") else text
            return Answer(status=reply.status, body=value, headers=reply.headers)

    async def get(self, target: str, path: str) -> Answer:
        return await self.ask("GET", target, path)

    async def generate(
        self, prompt: str | list[int], new_tokens: int, *, tenant: Tenant = TENANT_B, **more: object
    ) -> Answer:
        part = {"text": prompt} if isinstance(prompt, str) else {"input_ids": prompt}
        params = {"max_new_tokens": new_tokens, "temperature": 0}
        body = {**part, "sampling_params": params, **more}
        return await self.ask("POST", "router", "/generate", body, tenant.api_key)

    async def say(self, prompt: str, new_tokens: int, *, tenant: Tenant = TENANT_B) -> str:
        answer = await self.generate(prompt, new_tokens, tenant=tenant)
        assert answer.status == 200, answer.body
        return str(answer.body["text"])

    async def until(self, target: str, figure: str) -> None:
        """Wait until a load figure of a node is above zero."""
        async with asyncio.timeout(10):
            while not (await self._figures(target))[figure]:  # noqa: ASYNC110 over HTTP there is no event
                await asyncio.sleep(0)

    async def _figures(self, target: str) -> dict[str, Any]:
        loads = await self.loads(target)
        return loads | dict(loads["disaggregation"])

    async def until_state(self, name: str, state: str) -> None:
        """Wait until the control endpoint says so of a node."""
        while (await self.state_of(name)) != state:  # noqa: ASYNC110 over HTTP there is no event
            await asyncio.sleep(0)

    async def state_of(self, name: str) -> str:
        nodes = (await self.get("control", "/")).body["nodes"]
        return str(next(one["state"] for one in nodes if one["name"] == name))

    async def loads(self, target: str) -> dict[str, Any]:
        answer = await self.get(target, "/v1/loads")
        return dict(answer.body["loads"][0])


def node(name: str, role: Role, pool: int, **more: Any) -> NodeSettings:  # noqa: ANN401
    figures: dict[str, Any] = {
        "engine_version": "0.5.19",
        "context": 4096,
        "page_size": 1,
        "model": "drill-model",
    }
    return NodeSettings(name=name, role=role, pool=pool, **(figures | more))


def pair(prefill_pool: int, decode_pool: int, **more: Any) -> list[NodeSettings]:  # noqa: ANN401
    return [
        node("prefill-1", Role.PREFILL, prefill_pool, **(more | {"bootstrap_port": 8991})),
        node("decode-1", Role.DECODE, decode_pool, **({"reserved_decode_tokens": 16} | more)),
    ]


Launch = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def launch() -> AsyncIterator[Launch]:
    async with AsyncExitStack() as stack:

        async def start(nodes: list[NodeSettings], **more: Any) -> Rig:  # noqa: ANN401
            usual: dict[str, Any] = {"tenants": (TENANT_A, TENANT_B), "start_s": 0.05}
            cluster = await stack.enter_async_context(Cluster(Plan(nodes=nodes, **(usual | more))))
            timeout = aiohttp.ClientTimeout(total=20)
            session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
            return Rig(cluster=cluster, session=session)

        yield start


@pytest.fixture
def make_pair() -> Callable[..., list[NodeSettings]]:
    return pair


@pytest.fixture
def make_node() -> Callable[..., NodeSettings]:
    return node


@pytest.fixture
def rehearse() -> Iterator[Callable[..., Rehearsal]]:
    """Start the engines of a scenario; what they have on disk goes with the test."""
    started: list[Rehearsal] = []

    def start(scenario: str, *arguments: str) -> Rehearsal:
        started.append(Rehearsal.of(scenario, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.world.close()
