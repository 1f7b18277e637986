"""What looks at a router tell of workers that must stay out of it; pure, one look at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from fleet.endpoint import is_same_place, place_of

#: A worker that comes and goes is told once; so long none must be listed until they are gone.
SETTLED_AFTER: Final = timedelta(seconds=60)
#: So long a router may fail to answer before that is told: a single lost answer is no news.
UNREAD_AFTER: Final = timedelta(seconds=30)


class NewsKind(StrEnum):
    """What is told of a router from which workers were taken out."""

    LISTED_AGAIN = "listed_again"
    GONE_AGAIN = "gone_again"
    UNREADABLE = "unreadable"
    READABLE = "readable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is known of workers that must stay out.

    ``listed`` are the addresses that were listed although they must not be, until all of them have
    been gone for a while. While ``is_problem_told`` stands nobody knows whether they stay out.
    """

    listed: tuple[str, ...] = ()
    listed_since_at: datetime | None = None
    gone_since_at: datetime | None = None
    read_at: datetime | None = None
    problem: str = ""
    problem_since_at: datetime | None = None
    is_problem_told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One thing to tell; ``urls`` are the addresses that it is about."""

    kind: NewsKind
    urls: tuple[str, ...] = ()


def seen(before: Watched, *, listed: Sequence[str], at: datetime) -> tuple[Watched, list[News]]:
    """Answer what is known after a look that read the router's list, and what is new in it."""
    news = [News(kind=NewsKind.READABLE)] if before.is_problem_told else []
    fresh = tuple(url for url in dict.fromkeys(listed) if not _is_among(url, before.listed))
    if fresh:
        news.append(News(kind=NewsKind.LISTED_AGAIN, urls=fresh))
    known = (*before.listed, *fresh)
    after = Watched(
        listed=known,
        listed_since_at=(before.listed_since_at or at) if known else None,
        gone_since_at=(before.gone_since_at or at) if known and not listed else None,
        read_at=at,
    )
    if after.gone_since_at is not None and at - after.gone_since_at >= SETTLED_AFTER:
        news.append(News(kind=NewsKind.GONE_AGAIN, urls=known))
        after = Watched(read_at=at)
    return after, news


def not_seen(before: Watched, *, problem: str, at: datetime) -> tuple[Watched, list[News]]:
    """Answer what is known after a look that could not read the router, told once.

    Silence is no word that anything stays out, so it does not count as gone.
    """
    since = before.problem_since_at or at
    is_due = at - since >= UNREAD_AFTER
    news = [News(kind=NewsKind.UNREADABLE)] if is_due and not before.is_problem_told else []
    after = replace(
        before,
        gone_since_at=None,
        problem=problem,
        problem_since_at=since,
        is_problem_told=is_due or before.is_problem_told,
    )
    return after, news


def looks_like_restart(taken_out: Iterable[str], listed: Iterable[str]) -> bool:
    """Answer whether exactly what was taken out is back, all of several: as a restart does it.

    Routers keep membership in memory and take the workers of their command line when they start.
    """
    out, back = set(map(place_of, taken_out)), set(map(place_of, listed))
    return len(out) > 1 and out == back


def _is_among(url: str, urls: Iterable[str]) -> bool:
    return any(is_same_place(url, one) for one in urls)
