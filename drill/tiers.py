"""The tiers below a node's pool: copies of pages in host memory, and in a file that outlives it."""

from __future__ import annotations

import json
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drill.prefix_cache import Key

_TOKEN, _WRITER = array("i"), array("q")
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCopy:
    """What a page held when it was copied: a token and a writer a slot."""

    tokens: Sequence[int]
    writers: Sequence[int]


class Tier(Protocol):
    """Somewhere that pages are copied to and read back from."""

    @property
    def name(self) -> str:
        """Answer the word for it in `cached_tokens_details`."""

    def store(self, key: Key, page: PageCopy) -> None:
        """Keep a copy; the oldest go when there are too many."""

    def load(self, key: Key) -> PageCopy | None:
        """Answer what it has for a key, None when nothing can be read."""


class HostTier:
    """Pages in the memory of the process."""

    name = "host"

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._pages: OrderedDict[Key, PageCopy] = OrderedDict()

    @property
    def held(self) -> int:
        """Answer how many pages it holds."""
        return len(self._pages)

    def store(self, key: Key, page: PageCopy) -> None:
        """Keep a copy; the oldest go when there are too many."""
        self._pages[key] = page
        while len(self._pages) > self.capacity:
            self._pages.popitem(last=False)

    def load(self, key: Key) -> PageCopy | None:
        """Answer the copy, or None."""
        return self._pages.get(key)

    def clear(self) -> None:
        """Forget everything."""
        self._pages.clear()


class DiskTier:
    """Pages in files, and an index that says in which place of them each stands.

    All of it outlives the process; which places are taken does not. A new process begins again at
    the first place, while the old index still names it for another page, and counts places in its
    own page size. Each place has the key beside it that it was written under, which `load` looks at
    if told to. Once it is full the oldest places are written over, whatever the index says.
    """

    name = "storage"

    def __init__(
        self,
        directory: Path,
        *,
        page_size: int,
        capacity: int,
        looks_at_keys: Callable[[], bool],
    ) -> None:
        self._looks_at_keys = looks_at_keys
        self._capacity = capacity
        self._next = 0
        self._index_file = directory / "index.json"
        self._keys = _Places(directory / "keys.bin", _KEY_BYTES)
        self._tokens = _Places(directory / "tokens.bin", page_size * _TOKEN.itemsize)
        self._writers = _Places(directory / "writers.bin", page_size * _WRITER.itemsize)
        self._index: dict[Key, int] = {}
        if self._index_file.exists():
            said = json.loads(self._index_file.read_text())
            self._index = {bytes.fromhex(key): place for key, place in said.items()}

    def store(self, key: Key, page: PageCopy) -> None:
        """Write a copy to the next place."""
        place, self._next = self._next, (self._next + 1) % self._capacity
        self._keys.write(place, key)
        self._tokens.write(place, array(_TOKEN.typecode, page.tokens).tobytes())
        self._writers.write(place, array(_WRITER.typecode, page.writers).tobytes())
        self._index[key] = place

    def save(self) -> None:
        """Write the index, once after the pages of a request."""
        index = {key.hex(): place for key, place in self._index.items()}
        self._index_file.write_text(json.dumps(index))

    def load(self, key: Key) -> PageCopy | None:
        """Answer what stands in the place that the index names, or None."""
        place = self._index.get(key)
        if place is None or (self._looks_at_keys() and self._keys.read(place) != key):
            return None
        tokens, writers = self._tokens.read(place), self._writers.read(place)
        if tokens is None or writers is None:
            return None
        return PageCopy(
            tokens=array(_TOKEN.typecode, tokens), writers=array(_WRITER.typecode, writers)
        )


class _Places:
    """A file of places of one size."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        path.touch()

    def write(self, place: int, content: bytes) -> None:
        with self._path.open("r+b") as file:
            file.seek(place * self._size)
            file.write(content)

    def read(self, place: int) -> bytes | None:
        """Answer a place, None where the file ends before its end."""
        with self._path.open("rb") as file:
            file.seek(place * self._size)
            content = file.read(self._size)
        return content if len(content) == self._size else None
