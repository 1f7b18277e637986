"""What every router adapter must stand, how kinds are told apart, and what vllm-router adds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.registry import load_plugins
from fleet.access import DeploymentAccess, TenantAccess
from fleet.contract import ROUTERS, RouterAccess, RouterError
from fleet.reading import Role, Worker
from fleet.rotation import workers_remove
from fleet.routers.readiness import readiness_of
from fleet.routers.recognise import recognise
from fleet.routers.worker_list import read_workers
from tests.fleet.wire import BAD_ANSWERS, ROUTER_RECORDINGS, SECRET, Handler, client_of

load_plugins("fleet.routers")
KINDS = tuple(ROUTERS.all())
ACTS = ("list_workers", "remove_worker", "add_worker")
URL = "http://10.0.0.1:30000"
WORKER = Worker(worker_id=URL, url=URL, role=Role.UNIFIED, is_healthy=True)

#: One entry of GET /workers, as each router shows it (recorded, shortened).
ENTRIES: dict[str, dict[str, Any]] = {
    "sglang-router": {"id": "a", "url": URL, "worker_type": "regular", "is_healthy": True},
    "smg": {
        "id": "a",
        "url": URL,
        "worker_type": "regular",
        "is_healthy": True,
        "status": "ready",
    },
    "vllm-router": {"url": URL, "worker_type": "regular", "is_healthy": True},
}
UNKNOWN_URL = {"error": {"type": "invalid_request_error", "code": "unknown_url"}}
#: What GET /list_workers answers (recorded): the one route asked where nothing is listed.
TELLING: dict[str, httpx.Response] = {
    "sglang-router": httpx.Response(404),
    "smg": httpx.Response(404, json=UNKNOWN_URL),
    "vllm-router": httpx.Response(200, json={"urls": []}),
}


def access(handler: Handler, *, deadline_s: float = 1.0) -> RouterAccess:
    return RouterAccess(
        url="http://10.0.0.9:20100", client=client_of(handler), key=SECRET, deadline_s=deadline_s
    )


def listing(*entries: object, telling: httpx.Response | None = None) -> Handler:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/workers":
            return httpx.Response(200, json={"workers": list(entries), "total": len(entries)})
        return telling or httpx.Response(404)

    return handle


async def call(kind: str, act: str, router: RouterAccess) -> object:
    arguments = (router,) if act == "list_workers" else (router, WORKER)
    return await getattr(ROUTERS.get(kind), act)(*arguments)


async def recognised(handler: Handler) -> str:
    return await recognise(client_of(handler), "http://10.0.0.9:20100", SECRET)


@pytest.mark.parametrize("name", BAD_ANSWERS)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_router_that_answers_badly_is_named_and_no_key_shown(
    kind: str, act: str, name: str
) -> None:
    with pytest.raises(RouterError, match=r"10\.0\.0\.9:20100") as caught:
        await call(kind, act, access(BAD_ANSWERS[name]))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_a_router_that_answers_badly_is_of_no_kind(name: str) -> None:
    with pytest.raises(RouterError, match=r"10\.0\.0\.9:20100") as caught:
        await recognised(BAD_ANSWERS[name])
    assert SECRET not in str(caught.value)


bodies = st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["workers", "total", "urls", "error", "code", *ENTRIES["smg"]]), inner
        )
    ),
    max_leaves=8,
).map(lambda document: json.dumps(document).encode())


@given(
    body=bodies,
    later=bodies,
    status=st.sampled_from([200, 202, 400, 404, 409, 503]),
    later_status=st.sampled_from([200, 400, 404]),
)
async def test_no_body_makes_an_adapter_raise_another_error_or_show_a_key(
    body: bytes, later: bytes, status: int, later_status: int
) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/workers" and request.method == "GET":
            return httpx.Response(status, content=body)
        return httpx.Response(later_status, content=later)

    router = access(handle, deadline_s=0.0)
    tries: list[Callable[[], Any]] = [
        lambda kind=kind, act=act: call(kind, act, router)  # type: ignore[misc]
        for kind in KINDS
        for act in ACTS
    ]
    tries += [lambda: recognised(handle), lambda: readiness_of(router)]
    for one in tries:
        said = ""
        try:
            await one()
        except RouterError as fault:
            said = str(fault)
        assert SECRET not in said


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kind_is_told_by_the_fields_of_its_entries(kind: str) -> None:
    assert await recognised(listing(ENTRIES[kind])) == kind


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kind_that_lists_nothing_is_told_by_one_more_route(kind: str) -> None:
    assert await recognised(listing(telling=TELLING[kind])) == kind


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (listing(ENTRIES["smg"], ENTRIES["vllm-router"]), "not of one kind"),
        (listing(ENTRIES["sglang-router"], {**ENTRIES["smg"], "id": "b"}), "not of one kind"),
        (listing({"address": URL}), "answers like none of"),
        (listing(telling=httpx.Response(200, text="<html>")), "say which kind it is"),
        (listing(telling=httpx.Response(404, text="<html>not here")), "say which kind it is"),
        (listing(telling=httpx.Response(404, json={"error": "nf"})), "say which kind it is"),
        (lambda _: httpx.Response(200, text="<html>welcome</html>"), "cannot be read"),
        (lambda _: httpx.Response(200, json={"urls": [URL]}), "cannot be read"),
        (lambda _: httpx.Response(401), "control-plane key"),
    ],
)
async def test_what_is_no_known_router_is_of_no_kind(handler: Handler, why: str) -> None:
    with pytest.raises(RouterError, match=why):
        await recognised(handler)


async def test_recognising_asks_nothing_that_a_router_sends_on_to_an_engine() -> None:
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        return listing(telling=TELLING["smg"])(request)

    await recognised(handle)
    assert set(asked) == {"GET /workers", "GET /list_workers"}


@pytest.mark.parametrize(
    ("kind", "recording"),
    [("sglang-router", "smg_pd_workers_list"), ("smg", "smg113_pd_workers")],
)
async def test_recorded_lists_are_recognised(kind: str, recording: str) -> None:
    document = json.loads((ROUTER_RECORDINGS / f"{recording}.json").read_text())
    assert await recognised(lambda _: httpx.Response(200, json=document)) == kind


@pytest.mark.parametrize("status", ["draining", "pending", "failed"])
def test_a_worker_whose_status_is_not_ready_is_not_healthy(status: str) -> None:
    (worker,) = read_workers({"workers": [{**ENTRIES["smg"], "status": status}]})
    assert (worker.is_healthy, worker.status) == (False, status)


class PaperVLLM:
    """vllm-router as recorded: an address is the key, a split one takes nobody."""

    def __init__(self, *entries: dict[str, Any], is_split: bool = False) -> None:
        self.entries = list(entries)
        self.is_split = is_split
        self.orders: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"workers": self.entries, "total": len(self.entries)})
        (url,) = parse_qs(request.url.query.decode())["url"]
        self.orders.append((request.url.path, url))
        if request.url.path == "/remove_worker":
            self.entries = [one for one in self.entries if one["url"] != url]
            return httpx.Response(200, text=f"Successfully removed worker: {url}")
        if self.is_split:
            text = "PD router requires specific add_prefill_server or add_decode_server methods"
            return httpx.Response(400, text=text)
        self.entries.append({**ENTRIES["vllm-router"], "url": url})
        return httpx.Response(200, text=f"Successfully added worker: {url}")


async def test_vllm_router_is_ordered_by_address_once_each() -> None:
    paper = PaperVLLM(ENTRIES["vllm-router"])
    for act in ("remove_worker", "remove_worker", "add_worker", "add_worker"):
        await call("vllm-router", act, access(paper))
    assert paper.orders == [("/remove_worker", URL), ("/add_worker", URL)]


async def test_a_split_vllm_router_says_that_it_must_be_restarted() -> None:
    with pytest.raises(RouterError, match=f"restart it with {URL} on its command line"):
        await call("vllm-router", "add_worker", access(PaperVLLM(is_split=True)))


async def test_a_repeated_order_to_vllm_router_is_no_error() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"workers": [], "total": 0})
        return httpx.Response(400, text=f"Worker {URL} already exists")

    with pytest.raises(RouterError, match=r"it is not listed\) after"):
        await ROUTERS.get("vllm-router").add_worker(access(handle, deadline_s=0.1), WORKER)


@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE])
def test_only_a_split_vllm_router_warns_before_a_worker_is_taken_out(role: Role) -> None:
    split = replace(WORKER, role=role)
    notes = {kind: ROUTERS.get(kind).restore_note(split) for kind in KINDS}
    assert "restart" in notes.pop("vllm-router")
    assert set(notes.values()) == {""}
    assert ROUTERS.get("vllm-router").restore_note(WORKER) == ""


@pytest.mark.parametrize(
    ("status", "document", "is_ready", "text"),
    [
        (200, {"status": "ready", "healthy_workers": 3, "total_workers": 4}, True, "3 of 4"),
        (
            200,
            {
                "status": "ready",
                "prefill": {"healthy": 1, "total": 2},
                "decode": {"healthy": 2, "total": 2},
            },
            True,
            "1 of 2 prefill healthy, 2 of 2 decode",
        ),
        (503, {"status": "not ready", "reason": "insufficient healthy workers"}, False, "insuf"),
        (503, {"status": "not_ready", "reason": "no healthy prefill workers"}, False, "prefill"),
        (200, {"status": "ok"}, False, "not ready"),
        (200, {}, False, "no reason"),
    ],
)
async def test_a_router_is_ready_only_by_its_own_word(
    status: int, document: object, is_ready: bool, text: str
) -> None:
    said = await readiness_of(access(lambda _: httpx.Response(status, json=document)))
    assert said.is_ready is is_ready
    assert text in said.text


async def test_a_worker_that_does_not_leave_holds_none_of_the_others_back() -> None:
    entries = [{**ENTRIES["smg"], "id": str(number), "url": f"{URL}{number}"} for number in (1, 2)]
    gone: set[str] = set()

    def handle(request: httpx.Request) -> httpx.Response:
        number = request.url.path.rpartition("/")[2]
        if request.method == "DELETE" and number == "1":
            return httpx.Response(500, text="cannot")
        if request.method == "DELETE":
            gone.add(number)
            return httpx.Response(202)
        if number in {"1", "2"}:
            return httpx.Response(404 if number in gone else 200)
        left = [one for one in entries if one["id"] not in gone]
        return httpx.Response(200, json={"workers": left, "total": len(left)})

    wanted = DeploymentAccess(
        name="d",
        model="m",
        engine="sglang",
        nodes=(),
        router_kind="",
        router_url="http://10.0.0.9:20100",
        headroom=Decimal(1),
        advertised=None,
        granted_tokens=0,
        tenant_a=TenantAccess(name="a"),
        tenant_b=TenantAccess(name="b"),
    )
    workers = read_workers({"workers": entries})
    with pytest.raises(RouterError, match="DELETE /workers with 500: cannot"):
        await workers_remove(wanted, client_of(handle), workers)
    assert gone == {"2"}


async def test_an_order_that_vllm_router_holds_says_what_it_waits_for() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"workers": [], "total": 0})
        raise httpx.ReadTimeout("nothing came", request=request)

    with pytest.raises(RouterError, match=rf"only once the node is healthy.* {URL}"):
        await ROUTERS.get("vllm-router").add_worker(access(handle), WORKER)
