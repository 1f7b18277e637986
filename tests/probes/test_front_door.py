"""A unified node without a router: named as the target too, it is its own front door."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from fleet.live import NodeAddress
from fleet.reading import Load, Reading, Role
from probes.canary.rounds import Way
from probes.canary.safety import Question, clear
from probes.canary.scene import build_scene
from probes.canary.survey import Survey
from probes.canary.surveying import LiveSurveyor
from probes.canary.ways import Gateway, ways_into
from tests.fleet.wire import client_of
from tests.probes.builders import unified

URL = "http://10.0.0.7:8080"
NODE = NodeAddress(name="unified-1", url=URL, role=Role.UNIFIED, engine="llamacpp")
METRICS = "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n"
ANSWERS = {
    "/props": httpx.Response(
        200,
        json={
            "build_info": "b1",
            "total_slots": 1,
            "model_path": "m.gguf",
            "default_generation_settings": {"n_ctx": 2048},
        },
    ),
    "/slots": httpx.Response(200, json=[{"id": 0, "n_ctx": 2048}]),
    "/v1/models": httpx.Response(200, json={"data": [{"id": "m", "meta": {"n_ctx": 2048}}]}),
    "/metrics": httpx.Response(200, text=METRICS),
}


async def survey_of(
    answers: dict[str, httpx.Response], *nodes: NodeAddress, target: str = URL
) -> Survey:
    async with client_of(lambda request: answers.get(request.url.path, httpx.Response(404))) as it:
        surveyor = LiveSurveyor(client=it, engine="llamacpp", nodes=nodes, router_url=target)
        return await surveyor.survey()


async def test_a_node_that_is_its_own_front_door_is_in_rotation() -> None:
    survey = await survey_of(ANSWERS, NODE)
    clearance = clear(
        Question(way=Way.PAIR, survey=survey, reached=survey.readings, exposure=()), None
    )
    assert survey.lists(URL)
    assert clearance.is_granted
    # Its clients are others': budgets hold, and nothing is sent together.
    assert not clearance.is_cordoned


@pytest.mark.parametrize("way", list(Way))
async def test_it_is_spoken_to_as_its_engine_wants_whatever_way_is_named(way: Way) -> None:
    survey = await survey_of(ANSWERS, NODE)
    gateway = Gateway(client=client_of(lambda _: httpx.Response(404)), router_url=URL, model="m")
    (found,) = ways_into(gateway, way=way, survey=survey, named=(NODE,))
    assert found.dialect.name == "llamacpp"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/workers", httpx.Response(401)),
        ("/workers", httpx.Response(500)),
        ("/list_workers", httpx.Response(401)),
        ("/list_workers", httpx.Response(200, json={"urls": ["http://10.0.0.8:1"]})),
    ],
)
async def test_what_may_be_a_router_is_no_front_door(path: str, answer: httpx.Response) -> None:
    assert (await survey_of({**ANSWERS, path: answer}, NODE)).listed is None


async def test_a_router_is_asked_for_its_list_whoever_names_it_as_a_node() -> None:
    entry = {"id": "a", "url": "http://10.0.0.8:1", "worker_type": "regular", "is_healthy": True}
    listing = httpx.Response(200, json={"workers": [entry], "total": 1})
    survey = await survey_of({**ANSWERS, "/workers": listing}, NODE)
    assert not survey.lists(URL)


async def test_another_node_beside_it_or_another_address_is_no_front_door() -> None:
    other = replace(NODE, name="unified-2", url="http://10.0.0.8:8080")
    assert (await survey_of(ANSWERS, NODE, other)).listed is None
    assert (await survey_of(ANSWERS, NODE, target="http://10.0.0.9:1")).listed is None
    split = replace(NODE, role=Role.DECODE)
    assert (await survey_of(ANSWERS, split)).listed is None


async def test_a_slot_holds_all_that_its_node_admits() -> None:
    reading = (await survey_of(ANSWERS, NODE)).readings[0]
    scene = build_scene((reading,), target="node")
    assert scene.last_admitted == 2047
    assert scene.hang_at(2047, 1) == ""
    assert scene.longest_fitting(64) == 2048 - 64


def test_a_node_without_slots_may_be_blocked_near_its_limit() -> None:
    scene = build_scene((sglang_like(),), target="node")
    assert "hang band" in scene.hang_at(scene.last_admitted, 1)


def sglang_like() -> Reading:
    one = unified(load=Load(running=0, waiting=0, queues={"w": 0}), reserve=0)
    return replace(one, load=replace(one.load or Load(), free_tokens=one.first_refused))
