"""Rules of the router adapter, on a router on paper and on recorded lists."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.contract import RouterAccess, RouterError
from fleet.reading import Role, Worker
from fleet.routers.sglang_router import SGLangRouter
from fleet.routers.worker_list import NotAList, read_workers, restorable_labels
from tests.fleet.wire import (
    BAD_ANSWERS,
    ROUTER_RECORDINGS,
    SECRET,
    Handler,
    body_of,
    client_of,
)

ADAPTER = SGLangRouter()
WORKER = Worker(
    worker_id="id-1",
    url="http://10.0.0.1:30000",
    role=Role.PREFILL,
    is_healthy=True,
    bootstrap_port=8998,
    model="m",
    labels={"pool": "a", "version": "0.5.19", "tp_size": "1"},
    priority=50,
    cost=1.5,
)


def access(handler: Handler, *, deadline_s: float = 5.0) -> RouterAccess:
    client = client_of(handler)
    return RouterAccess(
        url="http://10.0.0.9:20100/",
        client=client,
        key=SECRET,
        worker_key="worker-key",
        deadline_s=deadline_s,
    )


def entry(**over: object) -> dict[str, Any]:
    return {
        "id": "id-1",
        "url": "http://10.0.0.1:30000",
        "model_id": "m",
        "priority": 50,
        "cost": 1.5,
        "worker_type": "prefill",
        "is_healthy": True,
        "bootstrap_port": 8998,
        "metadata": {"pool": "a", "version": "0.5.19", "tp_size": "1"},
        **over,
    }


@dataclass(slots=True, kw_only=True)
class PaperRouter:
    """Lists, drops and takes workers as the recorded routers do, each a few looks late."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    looks_until_done: int = 2
    looks_it_lingers: int = 0
    orders: list[dict[str, Any]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    pending: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.keys.add(request.headers.get("authorization", ""))
        route = {"GET": self.look, "DELETE": self.drop, "POST": self.take}[request.method]
        return route(request)

    def look(self, request: httpx.Request) -> httpx.Response:
        worker_id = request.url.path.removeprefix("/workers").strip("/")
        if worker_id:
            self.looks_it_lingers -= 1
            known = any(one["id"] == worker_id for one in self.entries)
            known = known or self.looks_it_lingers >= 0
            return httpx.Response(200 if known else 404, json={})
        if self.pending and self.looks_until_done <= 0:
            act, item = self.pending.pop(0)
            if act == "drop":
                self.entries.remove(item)
            else:
                item |= {"is_healthy": True, "worker_type": "prefill"}
        self.looks_until_done -= 1
        return httpx.Response(200, json={"workers": self.entries, "total": len(self.entries)})

    def drop(self, request: httpx.Request) -> httpx.Response:
        worker_id = request.url.path.rpartition("/")[2]
        self.dropped.append(worker_id)
        for one in self.entries:
            if one["id"] == worker_id:
                self.pending.append(("drop", one))
        return httpx.Response(202, json={"status": "accepted"})

    def take(self, request: httpx.Request) -> httpx.Response:
        order = body_of(request)
        self.orders.append(order)
        if any(one["url"] == order["url"] for one in self.entries):
            return httpx.Response(409, json={"code": "WORKER_ALREADY_EXISTS"})
        new = entry(id="id-2", is_healthy=False, worker_type="unknown")
        self.entries.append(new)
        self.pending.append(("take", new))
        return httpx.Response(202, json={"status": "accepted"})


async def test_a_list_is_read_with_all_that_adding_back_needs() -> None:
    assert await ADAPTER.list_workers(access(PaperRouter(entries=[entry()]))) == (WORKER,)


@pytest.mark.parametrize(
    ("kind", "role"),
    [("decode", Role.DECODE), ("regular", Role.UNIFIED), ("unknown", None), ("banana", None)],
)
def test_a_worker_type_that_is_no_role_is_no_role(kind: str, role: Role | None) -> None:
    (worker,) = read_workers({"workers": [entry(worker_type=kind)]})
    assert worker.role is role


def test_an_entry_of_smg_is_read_by_its_labels() -> None:
    shown = entry(labels={"pool": "b"}, status="draining", is_healthy=False)
    del shown["metadata"]
    (worker,) = read_workers({"workers": [shown]})
    assert (worker.labels, worker.is_healthy) == ({"pool": "b"}, False)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"workers": None},
        {"workers": {}},
        {"workers": [1]},
        {"workers": [], "total": 1},
        {"workers": [], "total": False},
        {"workers": [entry(), entry(url="http://10.0.0.2")]},
        {"workers": [entry(id=None)]},
        {"workers": [entry(url=3)]},
        {"workers": [entry(url="")]},
        {"workers": [entry(is_healthy="true")]},
        {"workers": [entry(worker_type=None)]},
        {"workers": [entry(bootstrap_port="8998")]},
        {"workers": [entry(bootstrap_port=True)]},
        {"workers": [entry(bootstrap_port=99999)]},
        {"urls": ["http://10.0.0.1"]},
        {"router_manager": True, "workers_count": 2},
    ],
)
async def test_a_list_that_is_odd_is_an_error_and_never_empty(document: object) -> None:
    with pytest.raises(NotAList):
        read_workers(document)
    handler = access(lambda _: httpx.Response(200, json=document))
    with pytest.raises(RouterError, match="cannot be read"):
        await ADAPTER.list_workers(handler)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*entry(), "workers", "total"]), inner)
        ),
        max_leaves=10,
    )
)
def test_any_document_is_a_list_or_no_list(document: object) -> None:
    for one in (document, {"workers": document}, {"workers": [document]}):
        try:
            workers = read_workers(one)
        except NotAList:
            continue
        assert all(worker.url and worker.worker_id for worker in workers)


@pytest.mark.parametrize("name", BAD_ANSWERS)
@pytest.mark.parametrize("act", ["list_workers", "remove_worker", "add_worker"])
async def test_a_router_that_answers_badly_is_named(name: str, act: str) -> None:
    router = access(BAD_ANSWERS[name])
    arguments = (router,) if act == "list_workers" else (router, WORKER)
    with pytest.raises(RouterError, match=r"10\.0\.0\.9:20100") as caught:
        await getattr(ADAPTER, act)(*arguments)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_says_which_key_is_wanted(status: int) -> None:
    with pytest.raises(RouterError, match="control-plane key"):
        await ADAPTER.list_workers(access(lambda _: httpx.Response(status, text=SECRET)))


async def test_removing_waits_until_the_worker_is_neither_listed_nor_known() -> None:
    paper = PaperRouter(entries=[entry(), entry(id="id-9", url="http://10.0.0.2:1")])
    await ADAPTER.remove_worker(access(paper), WORKER)
    assert [one["id"] for one in paper.entries] == ["id-9"]
    assert paper.dropped == ["id-1"]
    assert paper.keys == {f"Bearer {SECRET}"}


async def test_a_worker_that_is_still_known_by_its_id_is_not_gone() -> None:
    paper = PaperRouter(entries=[entry()], looks_it_lingers=3)
    await ADAPTER.remove_worker(access(paper), WORKER)
    assert paper.looks_it_lingers < 0
    forever = PaperRouter(entries=[entry()], looks_it_lingers=10**6)
    with pytest.raises(RouterError, match="still knows"):
        await ADAPTER.remove_worker(access(forever, deadline_s=0.3), WORKER)


async def test_removing_what_is_gone_does_nothing() -> None:
    paper = PaperRouter(entries=[entry(id="id-9", url="http://10.0.0.2:1")])
    await ADAPTER.remove_worker(access(paper), WORKER)
    assert paper.dropped == []


async def test_a_worker_that_came_back_under_another_id_is_removed() -> None:
    paper = PaperRouter(entries=[entry(id="id-7", url="http://10.0.0.1:30000/")])
    await ADAPTER.remove_worker(access(paper), WORKER)
    assert (paper.entries, paper.dropped) == ([], ["id-7"])


async def test_every_rank_of_a_worker_is_removed() -> None:
    ranks = [entry(id=f"id-{rank}", url=f"{WORKER.url}@{rank}") for rank in range(2)]
    paper = PaperRouter(entries=ranks)
    await ADAPTER.remove_worker(access(paper), WORKER)
    assert (paper.entries, paper.dropped) == ([], ["id-0", "id-1"])


async def test_a_lookalike_is_neither_taken_for_the_worker_nor_for_another() -> None:
    paper = PaperRouter(entries=[entry(url="http://localhost:30000")])
    worker = replace(WORKER, url="http://127.0.0.1:30000")
    for act in (ADAPTER.remove_worker, ADAPTER.add_worker):
        with pytest.raises(RouterError, match="another spelling"):
            await act(access(paper), worker)
    assert (paper.dropped, paper.orders) == ([], [])


async def test_a_worker_that_stays_is_an_error_after_the_deadline() -> None:
    paper = PaperRouter(entries=[entry()], looks_until_done=10**6)
    with pytest.raises(RouterError, match=r"still knows .* after 0\.2 s"):
        await ADAPTER.remove_worker(access(paper, deadline_s=0.2), WORKER)


async def test_adding_posts_all_that_was_recorded_and_waits_until_it_serves() -> None:
    paper = PaperRouter()
    await ADAPTER.add_worker(access(paper), WORKER)
    assert paper.orders == [
        {
            "url": "http://10.0.0.1:30000",
            "worker_type": "prefill",
            "bootstrap_port": 8998,
            "model_id": "m",
            "priority": 50,
            "cost": 1.5,
            "labels": {"pool": "a"},
            "api_key": "worker-key",
        }
    ]
    assert paper.entries[0]["is_healthy"]
    await ADAPTER.add_worker(access(paper), WORKER)
    assert len(paper.orders) == 1


async def test_adding_while_the_old_worker_drains_waits_for_its_end() -> None:
    old = entry(is_healthy=False)
    paper = PaperRouter(entries=[old], pending=[("drop", old)], looks_until_done=3)
    await ADAPTER.add_worker(access(paper), WORKER)
    assert [one["id"] for one in paper.entries] == ["id-2"]


async def test_a_worker_of_another_role_is_not_in_service() -> None:
    paper = PaperRouter(entries=[entry(worker_type="decode")])
    with pytest.raises(RouterError, match="listed as decode, healthy"):
        await ADAPTER.add_worker(access(paper, deadline_s=0.1), WORKER)


async def test_a_refused_order_is_told_without_a_key() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"workers": [], "total": 0})
        return httpx.Response(422, text=f"bad order {SECRET} worker-key {json.dumps({'a': 1})}")

    with pytest.raises(RouterError, match="422: bad order <key> <key>"):
        await ADAPTER.add_worker(access(handle), WORKER)


def test_no_key_is_in_the_words_of_an_access() -> None:
    assert SECRET not in repr(access(PaperRouter()))
    assert "worker-key" not in repr(access(PaperRouter()))


@pytest.mark.parametrize(
    ("name", "label"),
    [("smg_pd_workers_list", "model_path"), ("smg113_pd_workers", "max_model_len")],
)
def test_recorded_lists_are_read_whole(name: str, label: str) -> None:
    document = json.loads((ROUTER_RECORDINGS / f"{name}.json").read_text())
    workers = read_workers(document)
    assert sorted((worker.url, worker.role) for worker in workers) == [
        ("http://127.0.0.1:21001", Role.PREFILL),
        ("http://127.0.0.1:21002", Role.PREFILL),
        ("http://127.0.0.1:22001", Role.DECODE),
        ("http://127.0.0.1:22002", Role.DECODE),
    ]
    ports = {worker.url: worker.bootstrap_port for worker in workers}
    assert (ports["http://127.0.0.1:21001"], ports["http://127.0.0.1:22001"]) == (8998, None)
    assert all(worker.is_healthy and worker.model == "dummy-model" for worker in workers)
    assert all(worker.labels[label] for worker in workers)
    assert all(restorable_labels(worker.labels) == {} for worker in workers)
