"""Looks whether what Pagewarden took out of a router stays out; stores what is found, once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from common.clock import now
from common.leases import owner_name
from common.registry import UnknownKey
from fleet.access import DeploymentAccess
from fleet.contract import RouterError
from fleet.endpoint import workers_at
from fleet.models import Deployment, OutOfRotation
from fleet.reading import Worker
from fleet.rotation import workers_listed
from fleet.rotation_rows import RotationChange, RotationWatch
from fleet.selectors import deployment_access, out_of_rotation, outbound_client
from fleet.staying_out import News, NewsKind, Watched, looks_like_restart, not_seen, seen

#: How old the last look at a router may become from which workers were taken out.
LOOK_EVERY = timedelta(seconds=5)
#: A look ends well within its lease.
_LOOK_LASTS_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """One look: what the router listed, or why it could not be read."""

    began_at: datetime
    ended_at: datetime
    workers: tuple[Worker, ...] = ()
    problem: str = ""


def watches_due() -> list[int]:
    """Answer the watches whose router is to be looked at, by key; makes those that are missing."""
    out = OutOfRotation.objects.filter(put_back_at=None, confirmed_at__isnull=False)
    watched = Deployment.objects.filter(pk__in=out.values("deployment")).exclude(router_url="")
    for deployment in watched.filter(rotation_watch=None):
        RotationWatch.objects.get_or_create(deployment=deployment)
    watches = RotationWatch.objects.free().filter(_due(), deployment__in=watched)
    return list(watches.order_by("looked_at").values_list("pk", flat=True))


def _due() -> Q:
    return Q(looked_at=None) | Q(looked_at__lt=now() - LOOK_EVERY)


def rotation_check(*, watch_pk: int) -> None:
    """Look at the router of one watch unless another worker does or just did; store what is new."""
    owner = owner_name()
    if not RotationWatch.objects.filter(_due()).claim(watch_pk, owner=owner):
        return
    try:
        watch = RotationWatch.objects.select_related("deployment").get(pk=watch_pk)
        _store(watch_pk, owner, _look(watch.deployment))
    finally:
        RotationWatch.objects.all().release(watch_pk, owner=owner)


def _look(deployment: Deployment) -> _Sight:
    access = deployment_access(deployment)
    began_at = now()
    try:
        workers = asyncio.run(_listed(access))
    except (RouterError, UnknownKey) as fault:
        return _Sight(began_at=began_at, ended_at=now(), problem=str(fault))
    except TimeoutError:
        problem = f"the router did not give its list within {_LOOK_LASTS_S:.0f} s"
        return _Sight(began_at=began_at, ended_at=now(), problem=problem)
    return _Sight(began_at=began_at, ended_at=now(), workers=workers)


async def _listed(access: DeploymentAccess) -> tuple[Worker, ...]:
    async with asyncio.timeout(_LOOK_LASTS_S), outbound_client() as client:
        return await workers_listed(access, client)


@transaction.atomic
def _store(watch_pk: int, owner: str, sight: _Sight) -> None:
    watch = (
        RotationWatch.objects.select_for_update(of=("self",))
        .select_related("deployment")
        .filter(pk=watch_pk, lease_owner=owner)
        .first()
    )
    if watch is None:
        return
    watch.looked_at = sight.ended_at
    rows = out_of_rotation(watch.deployment)
    if _counts(watch, rows, sight):
        _settle(watch, rows, sight)
    watch.save()


def _counts(watch: RotationWatch, rows: Sequence[OutOfRotation], sight: _Sight) -> bool:
    """Answer whether a look says anything: nothing is wanted back, and nothing was moved since."""
    if watch.acted_at is not None and sight.began_at <= watch.acted_at:
        return False
    if any(row.return_ordered_at is not None for row in rows):
        return False
    return any(row.confirmed_at is not None for row in rows)


def _settle(watch: RotationWatch, rows: Sequence[OutOfRotation], sight: _Sight) -> None:
    before = _watched(watch)
    # One whose removal is not confirmed yet is being taken out: whoever does that tells of it.
    leaving = [row.url for row in rows if row.confirmed_at is None]
    workers = [one for one in sight.workers if not any(workers_at([one], url) for url in leaving)]
    if sight.problem:
        after, news = not_seen(before, problem=sight.problem[:500], at=sight.ended_at)
    else:
        after, news = seen(before, listed=[one.url for one in workers], at=sight.ended_at)
    for name, value in asdict(after).items():
        setattr(watch, name, list(value) if name == "listed" else value)
    for one in news:
        _tell(watch, one, text=_words(watch, rows, workers, one, before), before=before)


def _watched(watch: RotationWatch) -> Watched:
    fields = {name: getattr(watch, name) for name in Watched.__dataclass_fields__}
    return Watched(**{**fields, "listed": tuple(watch.listed)})


def _tell(watch: RotationWatch, news: News, *, text: str, before: Watched) -> None:
    at = watch.looked_at or now()
    since = {
        NewsKind.LISTED_AGAIN: before.read_at,
        NewsKind.UNREADABLE: watch.problem_since_at,
        NewsKind.GONE_AGAIN: before.gone_since_at,
        NewsKind.READABLE: at,
    }[news.kind]
    RotationChange.objects.create(
        deployment=watch.deployment,
        at=at,
        since_at=since or at,
        kind=news.kind,
        text=text,
        urls=list(news.urls),
    )


def _words(
    watch: RotationWatch,
    rows: Sequence[OutOfRotation],
    workers: Sequence[Worker],
    news: News,
    before: Watched,
) -> str:
    router = f"The router of {watch.deployment}"
    if news.kind is NewsKind.UNREADABLE:
        return f"{router} cannot be read, so nobody knows what stays out: {watch.problem}"
    if news.kind is NewsKind.READABLE:
        return f"{router} can be read again"
    if news.kind is NewsKind.GONE_AGAIN:
        return f"{router} no longer lists {', '.join(news.urls)}"
    listed = "; ".join(_facts(url, rows, workers) for url in news.urls)
    last = f" At {before.read_at:%H:%M:%S} UTC they were still out." if before.read_at else ""
    return (
        f"{router} lists workers that must stay out: {listed}.{last}"
        f"{_cause(rows, workers)} Requests reach them: take them out again."
    )


def _facts(url: str, rows: Iterable[OutOfRotation], workers: Iterable[Worker]) -> str:
    there = workers_at(workers, url)
    state = "healthy" if any(one.is_healthy for one in there) else "not healthy"
    row = next((one for one in rows if workers_at(there, one.url)), None)
    if row is None:
        return f"{url} ({state}), which nobody took out: it was added, or an order was waiting"
    return f"{url} ({state}), taken out by {row.taken_out_by} at {row.taken_out_at:%H:%M:%S} UTC"


def _cause(rows: Sequence[OutOfRotation], workers: Sequence[Worker]) -> str:
    if not looks_like_restart([row.url for row in rows], [one.url for one in workers]):
        return ""
    return (
        f" All {len(rows)} and nothing else are back at once, as after a restart of the router "
        "with these workers on its command line: take them off it, or it will put them back again."
    )
