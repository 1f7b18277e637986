"""Ways in: which speaker for which router, pair and node, and what each takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.client import OutboundClient
from fleet.reading import Load, Reading, Role
from fleet.speakers import NodeSpeaker, PairSpeaker, RouterSpeaker
from fleet.vllm_pair import VllmPairSpeaker
from probes.canary.rounds import Way
from probes.canary.scene import DISK_TIER, HOST_TIER, build_scene
from probes.canary.survey import Survey
from probes.canary.ways import Gateway, WayIn, pair_of, ways_into
from tests.probes.builders import decode, node, prefill

URLS = {"prefill-1": "http://127.0.0.1:1", "decode-1": "http://127.0.0.1:2"}


def survey(*readings: Reading, kind: str = "sglang-router") -> Survey:
    return Survey(readings=readings, listed=(), router_kind=kind)


def pair(engine: str = "sglang") -> tuple[Reading, Reading]:
    return (
        prefill(url=URLS["prefill-1"], engine=engine),
        decode(url=URLS["decode-1"], engine=engine),
    )


def unified(name: str, engine: str) -> Reading:
    return node(name, Role.UNIFIED, engine=engine, url=f"http://127.0.0.1:3/{name}")


async def ways(found: Survey, way: Way) -> tuple[WayIn, ...]:
    async with OutboundClient() as client:
        gateway = Gateway(client=client, router_url="http://127.0.0.1:9", model="m")
        return ways_into(gateway, way=way, survey=found, named=())


@pytest.mark.parametrize(
    ("kind", "dialect"),
    [
        ("sglang-router", "sglang-router"),
        ("smg", "smg"),
        ("vllm-router", "vllm-router"),
        ("something new", "gateway"),
        ("", "sglang-router"),
    ],
)
async def test_a_router_is_spoken_to_as_what_it_is(kind: str, dialect: str) -> None:
    (way,) = await ways(survey(*pair(), kind=kind), Way.ROUTER)
    assert isinstance(way.speaker, RouterSpeaker)
    assert way.dialect.name == dialect
    assert way.speaker.kind == (kind or "sglang-router")


@pytest.mark.parametrize(
    ("engine", "speaker"), [("sglang", PairSpeaker), ("vllm", VllmPairSpeaker)]
)
async def test_a_pair_is_spoken_to_as_its_engine_wants(engine: str, speaker: type) -> None:
    (way,) = await ways(survey(*pair(engine)), Way.PAIR)
    assert type(way.speaker) is speaker
    assert way.dialect.name == engine
    assert way.reached == tuple(URLS.values())
    assert way.target == "pair prefill-1/decode-1"


async def test_every_unified_node_is_a_way_of_its_own() -> None:
    found = survey(unified("a", "llamacpp"), unified("b", "vllm"))
    first, second = await ways(found, Way.PAIR)
    assert isinstance(first.speaker, NodeSpeaker)
    assert [way.dialect.name for way in (first, second)] == ["llamacpp", "vllm"]
    assert first.target == "node a"
    assert len(first.reached) == 1


async def test_where_there_is_no_pair_nothing_is_reached() -> None:
    (way,) = await ways(survey(prefill(url=URLS["prefill-1"])), Way.PAIR)
    assert (way.target, way.reached) == ("no pair", ())
    async with OutboundClient() as client:
        gateway = Gateway(client=client, router_url="http://127.0.0.1:9", model="m")
        assert pair_of(gateway, survey=survey(), named=()) is None


@pytest.mark.parametrize(
    ("flags", "chunks", "tiers"),
    [
        ({}, (), ()),
        ({"chunked_prefill_size": "8192"}, (8_192,), ()),
        ({"chunked_prefill_size": "-1"}, (), ()),
        ({"chunked_prefill_size": None}, (), ()),
        ({"enable_hierarchical_cache": "true"}, (), (HOST_TIER,)),
        (
            {"enable_hierarchical_cache": "true", "hicache_storage_backend": "file"},
            (),
            (DISK_TIER, HOST_TIER),
        ),
        ({"hicache_storage_backend": "file"}, (), ()),
    ],
)
def test_chunks_and_tiers_are_what_a_reading_shows(
    flags: dict[str, str | None], chunks: tuple[int, ...], tiers: tuple[str, ...]
) -> None:
    first, second = (replace(one, load=Load(free_tokens=20_480), reserve=512) for one in pair())
    scene = build_scene((replace(first, flags=flags), second), target="router")
    assert (scene.chunks, scene.tiers) == (chunks, tiers)
