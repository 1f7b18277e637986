"""Every router adapter against the router itself, from its wheel, with the drill's nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.registry import load_plugins
from fleet.breakers import breakers_of
from fleet.client import OutboundClient
from fleet.contract import ROUTERS, RouterAccess, RouterError
from fleet.discovery import RouterOrder, discover
from fleet.models import Deployment, OutOfRotation
from fleet.reading import Role, Worker
from fleet.routers.recognise import recognise
from fleet.services import DeploymentTerms, deployment_add
from fleet.taking_out import (
    return_needs_a_hand,
    rotation_leave,
    rotation_list,
    rotation_look,
    rotation_return,
)
from tests.deployments import DrillStarter
from tests.fleet.real_routers import need, running, small_engine, split_arguments

load_plugins("fleet.routers")
#: Routers that really put a split pair back; vllm-router does not.
SPLIT = ("sglang-router", "smg")


async def listed_of(kind: str, url: str) -> dict[str, Worker]:
    async with OutboundClient() as client:
        router = RouterAccess(url=url, client=client)
        return {one.url: one for one in await ROUTERS.get(kind).list_workers(router)}


async def kind_of(url: str) -> str:
    async with OutboundClient() as client:
        return await recognise(client, url, "")


async def status_of_request(url: str, model: str, key: str = "") -> int:
    body = {"model": model, "prompt": "a b c", "max_tokens": 2, "temperature": 0}
    async with OutboundClient() as client:
        reply = await client.request(
            "POST", f"{url}/v1/completions", json=body, key=key, timeout_s=30
        )
        return reply.status


def metrics_at(url: str) -> str:
    base, _, port = url.rpartition(":")
    return f"{base}:{int(port) + 1}/metrics"


def without_figures(worker: Worker) -> Worker:
    """Leave out what a new registration changes by right: the id, and what was found out anew."""
    return replace(worker, worker_id="", labels={})


async def remove_and_add_twice(kind: str, url: str, taken: Worker) -> None:
    adapter = ROUTERS.get(kind)
    before = await listed_of(kind, url)
    async with OutboundClient() as client:
        router = RouterAccess(url=url, client=client, deadline_s=30)
        for _ in range(2):
            await adapter.remove_worker(router, taken)
            assert set(await listed_of(kind, url)) == set(before) - {taken.url}
        for _ in range(2):
            await adapter.add_worker(router, taken)
            back = (await listed_of(kind, url))[taken.url]
            assert without_figures(back) == without_figures(taken)
    assert set(await listed_of(kind, url)) == set(before)


async def order_that_stands(kind: str, url: str) -> None:
    """Order a node that does not answer: the router goes on waiting for it, and we say so."""
    gone = Worker(worker_id="", url="http://127.0.0.1:9", role=Role.DECODE, is_healthy=True)
    async with OutboundClient() as client:
        router = RouterAccess(url=url, client=client, deadline_s=0.5)
        with pytest.raises(RouterError, match="the order stands and cannot be taken back"):
            await ROUTERS.get(kind).add_worker(router, gone)


@pytest.mark.parametrize("kind", SPLIT)
async def test_a_split_router_gives_a_prefill_node_up_and_takes_it_back(
    kind: str, start_drill: DrillStarter, free_ports: Callable[[], int], tmp_path: Path
) -> None:
    need(kind)
    drill = start_drill("--scenario", "healthy")
    arguments = split_arguments(kind, drill.nodes)
    with running(kind, free_ports(), arguments, tmp_path / "router.log") as url:
        assert await kind_of(url) == kind
        listed = await listed_of(kind, url)
        assert {(one.url, str(one.role), one.bootstrap_port) for one in listed.values()} == {
            (node["url"], node["role"], node["bootstrap_port"]) for node in drill.nodes
        }
        assert {one.model for one in listed.values()} == {drill.model}
        assert all(one.is_healthy for one in listed.values())
        await remove_and_add_twice(kind, url, listed[drill.nodes[0]["url"]])
        await order_that_stands(kind, url)
        key = drill.tenants[0]["api_key"]
        assert await status_of_request(url, drill.model, key) == 200


@pytest.mark.parametrize("kind", SPLIT)
async def test_a_router_with_a_key_is_read_with_it_and_asks_for_it(
    kind: str, start_drill: DrillStarter, free_ports: Callable[[], int], tmp_path: Path
) -> None:
    need(kind)
    drill = start_drill("--scenario", "healthy")
    arguments = [*split_arguments(kind, drill.nodes), "--api-key", "router-key"]
    with running(kind, free_ports(), arguments, tmp_path / "router.log") as url:
        async with OutboundClient() as client:
            with pytest.raises(RouterError, match="control-plane key"):
                await recognise(client, url, "")
            order = RouterOrder(url=url, key="router-key", metrics_url=metrics_at(url))
            found = await discover(client, order)
            closed = {node["url"]: "closed" for node in drill.nodes}
            assert await breakers_of(client, metrics_at(url)) == closed
        assert (found.kind, found.model, found.problems) == (kind, drill.model, ())
        assert found.readiness == "ready: 2 of 2 healthy"
        assert {(one.url, str(one.role), one.bootstrap_port) for one in found.nodes} == {
            (node["url"], node["role"], node["bootstrap_port"]) for node in drill.nodes
        }


async def test_vllm_router_gives_a_unified_node_up_and_takes_it_back(
    free_ports: Callable[[], int], tmp_path: Path
) -> None:
    need("vllm-router")
    port = free_ports()
    with small_engine(port + 2) as first, small_engine(port + 3) as second:
        arguments = ["--worker-urls", first.url, second.url]
        with running("vllm-router", port, arguments, tmp_path / "router.log") as url:
            assert await kind_of(url) == "vllm-router"
            listed = await listed_of("vllm-router", url)
            assert {one.url: one.role for one in listed.values()} == {
                first.url: Role.UNIFIED,
                second.url: Role.UNIFIED,
            }
            await remove_and_add_twice("vllm-router", url, listed[first.url])
            assert await status_of_request(url, "small-model") == 200


@pytest.fixture
def deployment_at(db: None) -> Callable[[str], Deployment]:  # noqa: ARG001 - wanted for its act
    def add(url: str) -> Deployment:
        terms = DeploymentTerms(name="real", model="m", router_kind="", router_url=url)
        return deployment_add(actor="test", terms=terms)

    return add


@pytest.fixture
def drill_nodes(start_drill: DrillStarter) -> tuple[dict[str, Any], ...]:
    return start_drill("--scenario", "healthy").nodes


def facts_of(workers: tuple[Worker, ...]) -> dict[str, Worker]:
    return {one.url: without_figures(one) for one in workers}


@pytest.mark.parametrize("kind", SPLIT)
def test_a_whole_deployment_leaves_a_recognised_router_and_returns(
    kind: str,
    drill_nodes: tuple[dict[str, Any], ...],
    deployment_at: Callable[[str], Deployment],
    free_ports: Callable[[], int],
    tmp_path: Path,
) -> None:
    need(kind)
    arguments = split_arguments(kind, drill_nodes)
    with running(kind, free_ports(), arguments, tmp_path / "router.log") as url:
        deployment = deployment_at(url)
        before = facts_of(rotation_list(deployment=deployment))
        assert rotation_look(deployment=deployment).notes == ()
        for _ in range(2):
            assert len(rotation_leave(deployment=deployment, actor="test")) == len(drill_nodes)
            assert rotation_list(deployment=deployment) == ()
        assert not return_needs_a_hand(deployment=deployment)
        assert asyncio.run(kind_of(url)) == kind
        assert len(rotation_return(deployment=deployment)) == len(drill_nodes)
        assert facts_of(rotation_list(deployment=deployment)) == before
        assert rotation_return(deployment=deployment) == ()


def test_a_split_vllm_router_says_before_that_putting_back_needs_a_restart(
    drill_nodes: tuple[dict[str, Any], ...],
    deployment_at: Callable[[str], Deployment],
    free_ports: Callable[[], int],
    tmp_path: Path,
) -> None:
    need("vllm-router")
    port = free_ports()
    arguments = split_arguments("vllm-router", drill_nodes)
    deployment = deployment_at(f"http://127.0.0.1:{port}")
    with running("vllm-router", port, arguments, tmp_path / "router.log") as url:
        assert asyncio.run(kind_of(url)) == "vllm-router"
        before = facts_of(rotation_list(deployment=deployment))
        assert {(one.url, str(one.role), one.bootstrap_port) for one in before.values()} == {
            (node["url"], node["role"], node["bootstrap_port"]) for node in drill_nodes
        }
        notes = rotation_look(deployment=deployment).notes
        assert [node["url"] in " ".join(notes) for node in drill_nodes] == [True, True]
        assert "restart" in notes[0]
        rotation_leave(deployment=deployment, actor="test")
        assert rotation_list(deployment=deployment) == ()
        assert asyncio.run(kind_of(url)) == "vllm-router"
        assert return_needs_a_hand(deployment=deployment)
        with pytest.raises(RouterError, match="restart it with"):
            rotation_return(deployment=deployment)
        assert OutOfRotation.objects.filter(put_back_at=None).count() == len(drill_nodes)
    with running("vllm-router", port, arguments, tmp_path / "router.log"):
        assert len(rotation_return(deployment=deployment)) == len(drill_nodes)
        assert facts_of(rotation_list(deployment=deployment)) == before
