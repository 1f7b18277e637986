"""Tells whether two addresses are the same place, so that nodes and workers can be matched."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from fleet.address import Endpoint, parse_url
from fleet.contract import AddressRefused
from fleet.reading import Worker

#: Spellings of "this machine"; they need not be the same server, and need not be different ones.
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
#: sglang-router with --dp-aware lists one worker a rank, as URL@RANK.
_RANK_SUFFIX: Final = re.compile(r"@[0-9]{1,4}$")


def place_of(url: str) -> str:
    """Answer the one spelling of an address: case, default port, slash and rank do not count."""
    bare = _RANK_SUFFIX.sub("", url.strip())
    endpoint = _endpoint(bare)
    if endpoint is None:
        return bare.rstrip("/").lower()
    return f"{endpoint.origin}{endpoint.path.rstrip('/')}"


def is_same_place(first: str, second: str) -> bool:
    """Answer whether two addresses are certainly the same place."""
    return place_of(first) == place_of(second)


def may_be_same_place(first: str, second: str) -> bool:
    """Answer whether two addresses differ only in how they spell this machine.

    Nobody may take them for the same, nor for different ones: say so instead.
    """
    one, other = _endpoint(place_of(first)), _endpoint(place_of(second))
    if one is None or other is None or is_same_place(first, second):
        return False
    return one.port == other.port and {one.host, other.host} <= _LOOPBACK_NAMES


def workers_at(workers: Iterable[Worker], url: str) -> tuple[Worker, ...]:
    """Answer the workers that are certainly at an address."""
    return tuple(worker for worker in workers if is_same_place(worker.url, url))


def lookalikes_of(workers: Iterable[Worker], url: str) -> tuple[Worker, ...]:
    """Answer the workers that may be at an address under another spelling."""
    return tuple(worker for worker in workers if may_be_same_place(worker.url, url))


def _endpoint(url: str) -> Endpoint | None:
    try:
        return parse_url(url)
    except AddressRefused:
        return None
