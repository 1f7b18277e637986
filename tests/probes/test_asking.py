"""Live nodes, through the client's transport seam: discovery, waiting, and what stays silent."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from common.verdicts import Verdict
from fleet.client import OutboundClient
from fleet.live import NodeAddress
from fleet.reading import Role
from probes import asking
from probes.answering import fleet_of
from probes.arguments import NodesAsked
from probes.asking import ROUTER_CHECK, Look, look_at_nodes
from probes.judge import judge_fleet

READINGS = Path(__file__).resolve().parent.parent / "data" / "sglang" / "readings"
ROUTER = "http://127.0.0.1:21000"
URLS = {"prefill": "http://127.0.0.1:21001", "decode": "http://127.0.0.1:21002"}
Answerer = Callable[[httpx.Request], httpx.Response]


def recorded_answers(name: str = "0.5.19-pd-1024-4096") -> Answerer:
    """Answer what the recorded nodes answered, and a router that lists them."""
    document = json.loads((READINGS / f"{name}.json").read_text(encoding="utf-8"))
    answers = {URLS[node["role"]]: node["responses"] for node in document["nodes"]}

    def answer(request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.port == 21_000:
            return httpx.Response(200, json=worker_list())
        found = answers[f"{url.scheme}://{url.host}:{url.port}"].get(f"GET {url.path}")
        if found is None:
            return httpx.Response(404, json={})
        text = found.get("text") or json.dumps(found["json"])
        return httpx.Response(found["status"], text=text)

    return answer


def worker(role: str, **over: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a worker
    return {
        "id": f"id-{role}",
        "url": URLS.get(role, "http://127.0.0.1:21009"),
        "model_id": "m",
        "worker_type": role,
        "is_healthy": True,
        "metadata": {},
        **over,
    }


def worker_list(*workers: dict[str, Any]) -> dict[str, Any]:
    listed = list(workers) or [worker("prefill", bootstrap_port=8_998), worker("decode")]
    return {"workers": listed, "total": len(listed)}


def asked(
    *roles: str, router: str = "", wait_s: float = 0, context: int | None = None
) -> NodesAsked:
    nodes = tuple(
        NodeAddress(name=f"{role}-1", url=URLS[role], role=Role(role), engine="sglang")
        for role in roles
    )
    return NodesAsked(
        engine="sglang",
        nodes=nodes,
        router_url=router,
        headroom=Decimal("1.25"),
        context=context,
        wait_s=wait_s,
        key="sk-node",
        router_key="sk-router",
    )


async def look(answer: Answerer, wanted: NodesAsked, told: list[str] | None = None) -> Look:
    told = [] if told is None else told
    async with OutboundClient(transport=httpx.MockTransport(answer)) as client:
        return await look_at_nodes(client, wanted, tell=told.append)


def names_of(one: Look) -> list[tuple[str, str, str]]:
    return [(node.name, str(node.role), node.url) for node in one.captures]


def listing(answer: Answerer, response: httpx.Response) -> Answerer:
    """Answer the recorded nodes behind a router with another answer."""
    return lambda request: response if request.url.port == 21_000 else answer(request)


async def test_nodes_that_were_named_are_read() -> None:
    found = await look(recorded_answers(), asked("prefill", "decode"))
    fleet = fleet_of(found.captures, headroom=Decimal("1.25"), advertised=found.advertised)
    (prefill, decode) = fleet.readings
    assert (prefill.first_refused, decode.first_refused) == (1_018, 4_090)
    assert found.silent == ()
    assert judge_fleet(fleet, also=found.problems).verdict is Verdict.FAIL


async def test_a_router_gives_the_nodes_and_their_bootstrap_ports() -> None:
    found = await look(recorded_answers(), asked(router=ROUTER))
    assert names_of(found) == [
        ("prefill-1", "prefill", URLS["prefill"]),
        ("decode-1", "decode", URLS["decode"]),
    ]
    assert found.problems == ()


async def test_what_was_named_and_what_is_listed_are_merged_by_address() -> None:
    found = await look(recorded_answers(), asked("decode", router=ROUTER))
    assert sorted(names_of(found)) == [
        ("decode-1", "decode", URLS["decode"]),
        ("prefill-1", "prefill", URLS["prefill"]),
    ]


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(401),
        httpx.Response(500, text="no"),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"workers": [{"id": "x"}]}),
        httpx.Response(200, json={"workers": []}),
        httpx.Response(200, json=worker_list(worker("other"))),
        httpx.Response(200, json=worker_list(worker("decode", url="http://u:p@127.0.0.1"))),
        httpx.Response(200, json=worker_list(worker("decode", url=URLS["prefill"]))),
    ],
)
async def test_a_router_that_does_not_tell_all_blocks(response: httpx.Response) -> None:
    wanted = asked("prefill", "decode", router=ROUTER)
    healthy = recorded_answers("0.5.23-pd-1024-1024")
    found = await look(listing(healthy, response), wanted)
    (problem,) = found.problems
    assert problem.check == ROUTER_CHECK
    assert problem.verdict is Verdict.INCONCLUSIVE
    assert problem.required
    assert ROUTER in problem.reason
    assert "u:p" not in problem.reason
    assert len(found.captures) == 2
    judgement = judge_fleet(
        fleet_of(found.captures, headroom=Decimal(1), advertised=None), also=found.problems
    )
    assert judgement.verdict is not Verdict.PASS


@pytest.mark.parametrize(
    ("labels", "wanted", "advertised"),
    [
        ({}, None, None),
        ({"context_length": "8192"}, None, 8_192),
        ({"max_model_len": "8192"}, 4_096, 8_192),
        ({"max_model_len": "8192"}, 16_384, 16_384),
        ({"context_length": "lots"}, None, None),
        ({"context_length": "9" * 5_000}, None, None),
    ],
)
async def test_the_largest_of_what_router_and_person_advertise_counts(
    labels: dict[str, str], wanted: int | None, advertised: int | None
) -> None:
    listed = worker_list(worker("prefill", metadata=labels), worker("decode"))
    answer = listing(recorded_answers(), httpx.Response(200, json=listed))
    found = await look(answer, asked(router=ROUTER, context=wanted))
    assert found.advertised == advertised


async def test_each_key_goes_only_where_it_belongs() -> None:
    seen: dict[int | None, set[str | None]] = {}
    recorded = recorded_answers()

    def answer(request: httpx.Request) -> httpx.Response:
        seen.setdefault(request.url.port, set()).add(request.headers.get("authorization"))
        return recorded(request)

    await look(answer, asked(router=ROUTER))
    assert seen == {
        21_000: {"Bearer sk-router"},
        21_001: {"Bearer sk-node"},
        21_002: {"Bearer sk-node"},
    }


async def test_waiting_ends_as_soon_as_the_nodes_are_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_FIRST_PAUSE_S", 0.001)
    recorded, looks = recorded_answers(), 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal looks
        looks += request.url.path == "/server_info" and request.url.port == 21_001
        return recorded(request) if looks > 2 else httpx.Response(503)

    told: list[str] = []
    found = await look(answer, asked("prefill", "decode", wait_s=60), told)
    assert found.silent == ()
    assert looks == 3
    assert "prefill-1" in told[0]


async def test_waiting_also_waits_for_the_router(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_FIRST_PAUSE_S", 0.001)
    recorded, looks = recorded_answers(), 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal looks
        if request.url.port != 21_000:
            return recorded(request)
        looks += 1
        return recorded(request) if looks > 2 else httpx.Response(200, json={"workers": []})

    found = await look(answer, asked(router=ROUTER, wait_s=60))
    assert len(found.captures) == 2
    assert found.problems == ()


async def test_what_is_not_up_at_the_end_is_judged_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "_FIRST_PAUSE_S", 0.001)
    found = await look(lambda _: httpx.Response(503), asked("prefill", "decode", wait_s=0.01))
    assert len(found.silent) == 2
    fleet = fleet_of(found.captures, headroom=Decimal("1.25"), advertised=None)
    assert judge_fleet(fleet).verdict is Verdict.INCONCLUSIVE
