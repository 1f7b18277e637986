"""Which parts of this installation answer; quick even where they do not."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import redis
from django.conf import settings
from django.db import connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from common.clock import now
from common.models import BEAT_FRESH_FOR, WorkerBeat

log = logging.getLogger(__name__)

#: How long one part may take to answer before it counts as down.
PART_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part and, where it is down, why in one sentence."""

    name: str
    why: str = ""

    @property
    def is_up(self) -> bool:
        """Answer whether it answered as it should."""
        return not self.why

    @property
    def state(self) -> str:
        """Answer its state as published."""
        return "up" if self.is_up else "down"


class PartDown(Exception):
    """A part does not answer; the text says what to look at."""


def parts() -> tuple[Part, ...]:
    """Answer the state of every part, asked at the same time."""
    asks: dict[str, Callable[[], None]] = {"database": ask_database, "broker": ask_broker}
    if _drill_address():
        asks["drill"] = ask_drill
    with ThreadPoolExecutor(max_workers=len(asks)) as pool:
        found = {name: pool.submit(_ask, name, ask) for name, ask in asks.items()}
        answered = {name: future.result() for name, future in found.items()}
    worker = _ask("worker", ask_worker) if answered["database"].is_up else _unseen_worker()
    first = (answered.pop("database"), answered.pop("broker"), worker)
    return (*first, *answered.values())


def ask_database() -> None:
    """Ask the database for one row. Raises PartDown."""
    _last_beat()


def ask_worker() -> None:
    """Ask whether a worker has beaten lately. Raises PartDown."""
    last = _last_beat()
    if last is None:
        raise PartDown("no worker has started yet: start one, or run ./pagewarden up")
    if now() - last > BEAT_FRESH_FOR:
        silent = int((now() - last).total_seconds())
        raise PartDown(f"no worker has beaten for {silent} s: start one, or run ./pagewarden up")


def ask_broker() -> None:
    """Send PING to the broker. Raises PartDown."""
    try:
        client = redis.Redis.from_url(
            redis_address(settings.BROKER_URL),
            socket_connect_timeout=PART_TIMEOUT_S,
            socket_timeout=PART_TIMEOUT_S,
            # One short try: a retry would outlast the patience of who asks.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        with client:
            client.ping()
    except (redis.RedisError, ValueError, OSError) as error:
        raise PartDown(f"the broker does not answer: {_short(error)}") from error


def ask_drill() -> None:
    """Open a connection to the drill's control address. Raises PartDown."""
    split = urlsplit(_drill_address())
    try:
        socket.create_connection((split.hostname or "", split.port or 80), PART_TIMEOUT_S).close()
    except OSError as error:
        raise PartDown(f"the drill cluster does not answer: {_short(error)}") from error


def redis_address(url: str) -> str:
    """Answer a broker address as redis-py reads it; kombu writes unix sockets in its own way."""
    split = urlsplit(url)
    if split.scheme != "redis+socket":
        return url
    number = parse_qs(split.query).get("virtual_host", ["0"])[0].strip("/")
    password = f":{split.password}@" if split.password else ""
    return f"unix://{password}{split.path}?db={number}"


def _ask(name: str, ask: Callable[[], None]) -> Part:
    try:
        ask()
    except PartDown as error:
        return Part(name=name, why=str(error))
    except Exception as error:
        # Whatever went wrong, this address answers, and the part is not shown to be up.
        log.exception("asking for the %s raised", name)
        return Part(name=name, why=f"it could not be asked: {_short(error)}")
    return Part(name=name)


def _unseen_worker() -> Part:
    return Part(name="worker", why="not known: its sign of life is in the database")


def _last_beat() -> datetime | None:
    """Answer the last beat of any worker, by a connection of its own with short time-outs.

    The pool of Django would wait as long as the network does.
    """
    parameters: dict[str, Any] = {
        **connection.get_connection_params(),
        "connect_timeout": int(PART_TIMEOUT_S),
        "options": f"-c statement_timeout={int(PART_TIMEOUT_S * 1000)}",
    }
    table = WorkerBeat._meta.db_table  # noqa: SLF001 - Django's public name
    try:
        with psycopg.connect(**parameters) as link:
            row = link.execute(f'SELECT max(beaten_at) FROM "{table}"').fetchone()  # noqa: S608 - a model's own table
    except psycopg.Error as error:
        raise PartDown(f"the database does not answer: {_short(error)}") from error
    return row[0].astimezone(UTC) if row and row[0] else None


def _drill_address() -> str:
    return str(getattr(settings, "DRILL_CONTROL_URL", "") or "")


def _short(error: Exception) -> str:
    """Answer the first line of an error, which names what to look at and holds no password."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
