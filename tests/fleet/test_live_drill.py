"""The whole floor against a running drill cluster, with figures that no preset has."""

from __future__ import annotations

import pytest

from common.registry import load_plugins
from fleet.client import OutboundClient
from fleet.contract import ENGINES, ROUTERS, Api, Form, RouterAccess, Speaker
from fleet.live import NodeAddress, capture_fleet
from fleet.reading import Reading, Role, went_backwards
from fleet.speakers import DECODE_SILENT, PairSpeaker, RouterSpeaker
from fleet.tokenizing import chat_length, detokenize, tokenize
from tests.deployments import DrillCluster, DrillStarter

load_plugins("fleet.engines")
load_plugins("fleet.routers")

PAGE, CONTEXT, PREFILL_POOL, DECODE_POOL = 16, 3000, 1600, 4800
FIGURES = ("--page-size", PAGE, "--context", CONTEXT, "--prefill-pool", PREFILL_POOL)
FIRST_REFUSED = PREFILL_POOL - 6


def addresses(cluster: DrillCluster) -> tuple[NodeAddress, ...]:
    return tuple(
        NodeAddress(
            name=node["name"],
            url=node["url"],
            role=Role(node["role"]),
            bootstrap_port=node["bootstrap_port"],
        )
        for node in cluster.nodes
    )


async def readings_of(client: OutboundClient, cluster: DrillCluster) -> tuple[Reading, ...]:
    captures = await capture_fleet(client, addresses(cluster))
    return tuple(ENGINES.get("sglang").read(capture) for capture in captures)


@pytest.fixture
def cluster_of(start_drill: DrillStarter) -> DrillStarter:
    def start(version: str) -> DrillCluster:
        arguments = (*FIGURES, "--decode-pool", DECODE_POOL, "--engine-version", version)
        return start_drill(*map(str, arguments))

    return start


async def test_a_running_pair_shows_its_figures(cluster_of: DrillStarter) -> None:
    cluster = cluster_of("0.5.19")
    async with OutboundClient() as client:
        prefill, decode = await readings_of(client, cluster)
        again, _ = await readings_of(client, cluster)
    assert (prefill.problem, prefill.incomplete, prefill.version) == ("", (), "0.5.19")
    assert (prefill.first_refused, prefill.pool) == (FIRST_REFUSED, PREFILL_POOL)
    assert (decode.first_refused, decode.pool) == (CONTEXT - 6, DECODE_POOL)
    assert (prefill.context, decode.context) == (CONTEXT, CONTEXT)
    assert (prefill.reported_role, decode.reported_role) == (Role.PREFILL, Role.DECODE)
    assert prefill.load is not None
    assert prefill.load.is_idle
    assert prefill.restart_is_visible
    assert prefill.fingerprint == again.fingerprint
    assert not went_backwards(prefill, again)


async def test_the_pair_client_and_the_router_see_the_fault(cluster_of: DrillStarter) -> None:
    cluster = cluster_of("0.5.19")
    prefill, decode = addresses(cluster)
    key = cluster.tenants[0]["api_key"]
    async with OutboundClient() as client:
        pair = PairSpeaker(client=client, prefill=prefill, decode=decode)
        router = RouterSpeaker(client=client, router_url=cluster.router, model=cluster.model)
        for speaker in (pair, router):
            for length in (10, FIRST_REFUSED, FIRST_REFUSED + 100):
                answer = await speaker.ask(
                    token_ids=[40 + n % 20 for n in range(length)],
                    max_new_tokens=2,
                    tenant_key=key,
                    timeout_s=20,
                )
                assert (answer.status, answer.prompt_tokens) == (200, length)
            refused = await speaker.ask(
                token_ids=[40] * CONTEXT, max_new_tokens=2, tenant_key=key, timeout_s=20
            )
            assert (refused.status, refused.is_refused) == (400, True)
        stranger = await router.ask(
            token_ids=[40] * 5, max_new_tokens=1, tenant_key="nobody", timeout_s=20
        )
        assert stranger.status == 401


async def test_a_fixed_engine_refuses_and_the_pair_client_says_that_decode_waits(
    cluster_of: DrillStarter,
) -> None:
    cluster = cluster_of("0.5.22")
    prefill, decode = addresses(cluster)
    async with OutboundClient() as client:
        pair = PairSpeaker(client=client, prefill=prefill, decode=decode, decode_grace_s=0.3)
        answer = await pair.ask(
            token_ids=[40] * FIRST_REFUSED, max_new_tokens=1, tenant_key="", timeout_s=20
        )
        assert (answer.status, answer.is_refused) == (400, True)
        assert str(FIRST_REFUSED) in answer.error
        assert DECODE_SILENT in answer.error
        assert answer.seconds < 10
        ids = await tokenize(client, prefill, "two words")
        assert len(ids) > 1
        within = await pair.ask(token_ids=ids, max_new_tokens=1, tenant_key="", timeout_s=20)
        assert (within.status, within.prompt_tokens) == (200, len(ids))


STREAMED = tuple(Form(api=api, is_streamed=True) for api in Api)


@pytest.mark.parametrize("form", STREAMED, ids=lambda form: str(form.api))
async def test_a_stream_tells_the_same_as_a_whole_answer(
    form: Form, cluster_of: DrillStarter
) -> None:
    cluster = cluster_of("0.5.22")
    prefill, decode = addresses(cluster)
    key = cluster.tenants[0]["api_key"]
    async with OutboundClient() as client:
        ids = await tokenize(client, prefill, "Repeat this code exactly: 7Q2M9XK4TD1RWZ8CVN5HBJ3F")
        text = await detokenize(client, prefill, ids)
        is_chat = form.api is Api.CHAT
        length = await chat_length(client, prefill, text) if is_chat else len(ids)
        speakers: list[Speaker] = [
            PairSpeaker(client=client, prefill=prefill, decode=decode, model=cluster.model),
            RouterSpeaker(client=client, router_url=cluster.router, model=cluster.model),
        ]
        for speaker in speakers:
            whole, streamed = [
                await speaker.ask(
                    token_ids=ids,
                    max_new_tokens=12,
                    tenant_key=key,
                    timeout_s=20,
                    form=Form(api=form.api, is_streamed=is_streamed),
                    text=text,
                )
                for is_streamed in (False, True)
            ]
            assert (whole.answer, whole.error) == (streamed.answer, streamed.error)
            assert whole.answer
            assert streamed.token_ids == whole.token_ids
            assert (streamed.prompt_tokens, streamed.finish) == (length, whole.finish)
            assert (streamed.frames > 1, whole.frames) == (True, 0)
            assert streamed.first_token_s is not None
            assert streamed.first_token_s <= streamed.seconds
            assert (whole.first_token_s, whole.answer_id != streamed.answer_id) == (None, True)


@pytest.mark.parametrize("form", STREAMED, ids=lambda form: str(form.api))
async def test_a_refusal_under_200_and_silence_of_decode_are_told_apart_in_streams(
    form: Form, cluster_of: DrillStarter
) -> None:
    cluster = cluster_of("0.5.22")
    prefill, decode = addresses(cluster)
    async with OutboundClient() as client:
        pair = PairSpeaker(
            client=client,
            prefill=prefill,
            decode=decode,
            decode_grace_s=0.3,
            model=cluster.model,
        )
        for length, is_silent in ((FIRST_REFUSED, True), (CONTEXT, False)):
            answer = await pair.ask(
                token_ids=[40] * length,
                max_new_tokens=1,
                tenant_key="",
                timeout_s=20,
                form=form,
                # The chat template takes the rest.
                text="(" * (length - await chat_length(client, prefill, "")),
            )
            assert (answer.said_status, answer.is_refused) == (400, True)
            assert (DECODE_SILENT in answer.error) is is_silent
            assert str(length) in answer.error


async def test_a_worker_leaves_the_router_and_comes_back_as_it_was(
    cluster_of: DrillStarter,
) -> None:
    cluster = cluster_of("0.5.22")
    adapter = ROUTERS.get("sglang-router")
    async with OutboundClient() as client:
        router = RouterAccess(url=cluster.router, client=client, deadline_s=20)
        before = {worker.url: worker for worker in await adapter.list_workers(router)}
        assert set(before) == {node.url for node in addresses(cluster)}
        taken = before[addresses(cluster)[0].url]
        for _ in range(2):
            await adapter.remove_worker(router, taken)
            assert taken.url not in {one.url for one in await adapter.list_workers(router)}
        for _ in range(2):
            await adapter.add_worker(router, taken)
            after = {worker.url: worker for worker in await adapter.list_workers(router)}
            assert set(after) == set(before)
        back = after[taken.url]
        assert (back.role, back.bootstrap_port, back.model, back.priority) == (
            taken.role,
            taken.bootstrap_port,
            taken.model,
            taken.priority,
        )
