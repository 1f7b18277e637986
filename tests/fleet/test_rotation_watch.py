"""Looks at a router from which workers were taken out: what is told, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine

from common.clock import now
from common.leases import LEASE_LASTS
from fleet import taking_out
from fleet.models import Deployment, OutOfRotation
from fleet.reading import Worker
from fleet.rotation_rows import RotationChange, RotationWatch
from fleet.rotation_watch import LOOK_EVERY, rotation_check, watches_due
from fleet.staying_out import UNREAD_AFTER, NewsKind
from fleet.taking_out import (
    rotation_keep_out,
    rotation_leave,
    rotation_list,
    rotation_return,
    worker_enter,
)
from tests.deployments import DrillStarter, Register
from tests.fleet.real_routers import need, running, split_arguments

pytestmark = pytest.mark.django_db
HEALTHY = ("--scenario", "healthy")


def look(after: timedelta = timedelta(0)) -> None:
    """Do what a tick and a worker do, some time from now."""
    with time_machine.travel(now() + after, tick=False):
        for key in watches_due():
            rotation_check(watch_pk=key)


def news() -> list[str]:
    return list(RotationChange.objects.order_by("pk").values_list("kind", flat=True))


@pytest.fixture
def out(register: Register) -> tuple[Deployment, tuple[Worker, ...]]:
    deployment, _ = register(*HEALTHY)
    workers = rotation_list(deployment=deployment)
    rotation_leave(deployment=deployment, actor="run 7")
    return deployment, workers


def test_nothing_is_looked_at_while_nothing_is_out(register: Register) -> None:
    register(*HEALTHY)
    assert watches_due() == []


def test_workers_that_stay_out_are_no_news(out: tuple[Deployment, tuple[Worker, ...]]) -> None:
    deployment, _ = out
    look()
    assert watches_due() == []
    look(LOOK_EVERY * 2)
    watch = RotationWatch.objects.get(deployment=deployment)
    assert (watch.listed, watch.problem, news()) == ([], "", [])
    assert watch.read_at is not None


def test_a_worker_that_is_listed_again_is_told_with_its_facts(
    out: tuple[Deployment, tuple[Worker, ...]],
) -> None:
    deployment, workers = out
    look()
    worker_enter(deployment=deployment, worker=workers[0])
    for step in range(1, 6):
        look(LOOK_EVERY * 2 * step)
    (change,) = RotationChange.objects.all()
    assert (change.kind, change.urls) == (NewsKind.LISTED_AGAIN, [workers[0].url])
    assert f"{workers[0].url} (healthy), taken out by run 7" in change.text
    assert "restart" not in change.text
    assert change.since_at < change.at, "it may have been listed since the last look"


def test_a_worker_that_nobody_took_out_is_told_too(
    out: tuple[Deployment, tuple[Worker, ...]],
) -> None:
    deployment, workers = out
    OutOfRotation.objects.filter(url=workers[0].url).delete()
    worker_enter(deployment=deployment, worker=workers[0])
    look()
    assert "which nobody took out" in RotationChange.objects.get().text


def test_an_unreadable_router_is_told_once_and_never_as_out(
    out: tuple[Deployment, tuple[Worker, ...]],
) -> None:
    deployment, _ = out
    look()
    Deployment.objects.update(router_url="http://127.0.0.1:9")
    for step in range(1, 20):
        look(LOOK_EVERY * 2 * step)
    assert news() == [NewsKind.UNREADABLE]
    watch = RotationWatch.objects.get(deployment=deployment)
    assert watch.problem
    assert not watch.knows_all_is_out
    assert watch.looked_at is not None
    assert watch.read_at is not None
    assert watch.looked_at - watch.read_at > UNREAD_AFTER


def test_putting_back_is_no_news_at_any_moment(
    out: tuple[Deployment, tuple[Worker, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, _ = out
    looks: list[bool] = []

    def act_and_look(act: Any) -> Any:  # noqa: ANN401 - handed on
        answer = asyncio.run(act)
        look()
        looks.append(bool(RotationWatch.objects.get().looked_at))
        return answer

    monkeypatch.setattr(taking_out, "asyncio", SimpleNamespace(run=act_and_look))
    rotation_return(deployment=deployment)
    look(LOOK_EVERY * 2)
    assert (looks, news()) == ([True], [])


def test_an_order_to_put_back_explains_a_listing_until_it_is_called_off(
    out: tuple[Deployment, tuple[Worker, ...]],
) -> None:
    deployment, workers = out
    deployment.taken_out.update(return_ordered_at=now())
    worker_enter(deployment=deployment, worker=workers[0])
    look(timedelta(hours=1))
    assert news() == []
    rotation_keep_out(deployment=deployment)
    look(timedelta(hours=2))
    assert news() == [NewsKind.LISTED_AGAIN]


def test_a_look_from_before_an_act_says_nothing(
    out: tuple[Deployment, tuple[Worker, ...]],
) -> None:
    deployment, workers = out
    worker_enter(deployment=deployment, worker=workers[0])
    (key,) = watches_due()
    RotationWatch.objects.filter(pk=key).update(acted_at=now() + timedelta(seconds=1))
    rotation_check(watch_pk=key)
    assert news() == []


def test_taking_out_again_ends_the_episode(out: tuple[Deployment, tuple[Worker, ...]]) -> None:
    deployment, workers = out
    worker_enter(deployment=deployment, worker=workers[0])
    look()
    assert RotationWatch.objects.get().listed == [workers[0].url]
    rotation_leave(deployment=deployment, actor="rita")
    assert RotationWatch.objects.get().listed == []
    look(LOOK_EVERY * 2)
    assert news() == [NewsKind.LISTED_AGAIN, NewsKind.GONE_AGAIN]
    assert "by rita" in RotationChange.objects.order_by("pk")[1].text


def test_taking_out_again_is_the_word_of_the_router_too(
    out: tuple[Deployment, tuple[Worker, ...]],
) -> None:
    deployment, _ = out
    look()
    RotationWatch.objects.update(is_problem_told=True, problem="time-out", problem_since_at=now())
    rotation_leave(deployment=deployment, actor="rita")
    assert news() == [NewsKind.READABLE]
    assert RotationWatch.objects.get().knows_all_is_out


def test_a_watch_that_another_worker_holds_is_left_to_it(
    out: tuple[Deployment, tuple[Worker, ...]],
) -> None:
    deployment, workers = out
    worker_enter(deployment=deployment, worker=workers[0])
    (key,) = watches_due()
    RotationWatch.objects.update(lease_owner="dead", lease_until=now() + LEASE_LASTS)
    rotation_check(watch_pk=key)
    assert news() == []
    look(LEASE_LASTS + timedelta(seconds=1))
    assert news() == [NewsKind.LISTED_AGAIN]


@pytest.mark.parametrize("kind", ["sglang-router", "smg"])
def test_a_real_router_that_restarts_takes_them_in_again_and_is_named(
    kind: str, start_drill: DrillStarter, free_ports: Callable[[], int], tmp_path: Path
) -> None:
    need(kind)
    drill = start_drill(*HEALTHY)
    port, arguments = free_ports(), split_arguments(kind, drill.nodes)
    url = f"http://127.0.0.1:{port}"
    deployment = Deployment.objects.create(name="real", model="m", router_kind="", router_url=url)
    with running(kind, port, arguments, tmp_path / "router.log"):
        rotation_leave(deployment=deployment, actor="run 7")
        look()
        assert news() == []
    with running(kind, port, arguments, tmp_path / "router.log"):
        look(LOOK_EVERY * 2)
    (change,) = RotationChange.objects.all()
    assert set(change.urls) == {node["url"] for node in drill.nodes}
    assert "as after a restart of the router" in change.text
