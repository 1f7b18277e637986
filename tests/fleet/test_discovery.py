"""A cluster found by the address of its router: what is taken, what is left out and told."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.breakers import breakers_of
from fleet.contract import RouterError
from fleet.discovery import Found, FoundNode, RouterOrder, discover
from fleet.reading import Role
from tests.fleet.wire import BAD_ANSWERS, SECRET, client_of, serving

ROUTER = "http://10.0.0.9:20100"
METRICS = "http://10.0.0.9:29000/metrics"
READY = httpx.Response(200, json={"status": "ready", "healthy_workers": 2, "total_workers": 2})


def entry(number: int, kind: str, **over: object) -> dict[str, Any]:
    return {
        "id": f"id-{number}",
        "url": f"http://10.0.0.{number}:30000",
        "worker_type": kind,
        "model_id": "glm",
        "is_healthy": True,
        **over,
    }


async def found_of(
    *entries: dict[str, Any], model: str = "", metrics: str | None = None, **answers: httpx.Response
) -> Found:
    table = {
        "GET /workers": httpx.Response(200, json={"workers": entries, "total": len(entries)}),
        "GET /readiness": answers.get("readiness", READY),
        "GET /v1/models": answers.get("models", httpx.Response(404)),
        "GET /metrics": httpx.Response(200, text=metrics or ""),
    }
    order = RouterOrder(
        url=ROUTER, model=model, key=SECRET, metrics_url=METRICS if metrics is not None else ""
    )
    return await discover(serving(table), order)


async def test_nodes_are_named_by_role_and_address_with_their_bootstrap_ports() -> None:
    found = await found_of(
        entry(3, "decode"),
        entry(2, "prefill", bootstrap_port=8999),
        entry(1, "prefill", bootstrap_port=8998),
    )
    assert found.nodes == (
        FoundNode(
            name="prefill-1", url="http://10.0.0.1:30000", role=Role.PREFILL, bootstrap_port=8998
        ),
        FoundNode(
            name="prefill-2", url="http://10.0.0.2:30000", role=Role.PREFILL, bootstrap_port=8999
        ),
        FoundNode(name="decode-1", url="http://10.0.0.3:30000", role=Role.DECODE),
    )
    assert (found.kind, found.engine, found.model) == ("sglang-router", "sglang", "glm")
    assert (found.counts, found.problems) == ("2 prefill, 1 decode", ())


async def test_ranks_of_one_process_are_one_node() -> None:
    found = await found_of(
        entry(1, "regular", url="http://10.0.0.1:30000@0"),
        entry(2, "regular", url="http://10.0.0.1:30000@1"),
    )
    assert [one.url for one in found.nodes] == ["http://10.0.0.1:30000"]


async def test_what_cannot_be_a_node_is_left_out_and_told() -> None:
    found = await found_of(
        entry(1, "prefill"),
        entry(2, "unknown"),
        entry(3, "decode", url="grpc://10.0.0.3:1"),
        entry(4, "decode", is_healthy=False),
    )
    assert [one.url for one in found.nodes] == ["http://10.0.0.1:30000", "http://10.0.0.4:30000"]
    told = " | ".join(found.problems)
    assert all(word in told for word in ("10.0.0.2", "grpc", "10.0.0.4:30000 is not healthy"))


@pytest.mark.parametrize("entries", [(), (entry(1, "unknown"),)])
async def test_a_router_without_a_usable_node_is_an_error(entries: tuple[Any, ...]) -> None:
    with pytest.raises(RouterError, match="nothing to add from the router"):
        await found_of(*entries, readiness=httpx.Response(503, json={}))


async def test_a_model_that_is_not_one_is_asked_for() -> None:
    mixed = (entry(1, "regular"), entry(2, "regular", model_id="other"))
    found = await found_of(*mixed)
    assert found.model == ""
    assert "name the served model" in " ".join(found.problems)
    assert (await found_of(*mixed, model="glm")).model == "glm"


async def test_a_model_that_workers_do_not_name_is_taken_from_the_router() -> None:
    unnamed = entry(1, "regular", model_id="unknown")
    one = httpx.Response(200, json={"data": [{"id": "small"}]})
    assert (await found_of(unnamed, models=one)).model == "small"
    two = httpx.Response(200, json={"data": [{"id": "small"}, {"id": "large"}]})
    assert (await found_of(unnamed, models=two)).model == ""


async def test_a_router_that_is_not_ready_is_told() -> None:
    reply = httpx.Response(503, json={"status": "not ready", "reason": "insufficient"})
    found = await found_of(entry(1, "prefill"), readiness=reply)
    assert "the router calls itself not ready: insufficient" in found.problems


async def test_a_breaker_that_is_not_closed_is_told() -> None:
    found = await found_of(
        entry(1, "regular"),
        metrics=(
            'smg_worker_cb_state{worker="http://10.0.0.1:30000"} 1\n'
            'smg_worker_cb_state{worker="http://10.0.0.2:30000"} 0\n'
            'smg_worker_cb_state{worker="http://10.0.0.3:30000"} 2\n'
            'smg_worker_cb_state{worker="http://10.0.0.4:30000"} -1\n'
        ),
    )
    assert [one for one in found.problems if "breaker" in one] == [
        "the circuit breaker of http://10.0.0.1:30000 is open",
        "the circuit breaker of http://10.0.0.3:30000 is half open",
    ]


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_a_router_that_answers_badly_ends_discovery_in_its_own_words(name: str) -> None:
    with pytest.raises(RouterError) as caught:
        await discover(client_of(BAD_ANSWERS[name]), RouterOrder(url=ROUTER, key=SECRET))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["refused", "timeout", "status"])
async def test_metrics_that_cannot_be_read_are_an_error(name: str) -> None:
    with pytest.raises(RouterError, match="metrics"):
        await breakers_of(client_of(BAD_ANSWERS[name]), METRICS)


@given(st.text(alphabet='smg_worker_cb_state{="}012 \n.-:/h', max_size=200))
async def test_any_metrics_text_is_read_or_left_out(text: str) -> None:
    client = client_of(lambda _: httpx.Response(200, text=f"smg_worker_cb_state{text}"))
    states = await breakers_of(client, METRICS)
    assert set(states.values()) <= {"closed", "open", "half open"}
