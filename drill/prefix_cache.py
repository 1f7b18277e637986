"""The prefix cache: pages of finished prompts by a digest of all that stands before their end."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from drill.pool import PagePool

Key = bytes


def keys_of(tokens: Sequence[int], page_size: int, salt: str | None) -> list[Key]:
    """Answer one key a full page: the digest of the salt and of every token up to its end.

    The page size is no part of it, as a digest of content has no layout of its own.
    """
    # As a key of its own the salt cannot be mistaken for the first tokens.
    secret = blake2b(salt.encode()).digest() if salt else b""
    digest = blake2b(key=secret, digest_size=16)
    keys = []
    for start in range(0, len(tokens) - page_size + 1, page_size):
        digest.update(array("i", tokens[start : start + page_size]).tobytes())
        keys.append(digest.copy().digest())
    return keys


class PrefixCache:
    """Pages that finished requests left, oldest use first; pages in use stay.

    Source: SGLang mem_cache/radix_cache, page by page: what matches is a prefix of whole pages.
    """

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._pages: OrderedDict[Key, int] = OrderedDict()
        self._in_use: Counter[int] = Counter()

    @property
    def evictable(self) -> int:
        """Answer how many pages the cache can let go of."""
        return len(self._pages) - len(self._in_use)

    def match(self, keys: Iterable[Key]) -> list[int]:
        """Answer the pages of the longest known prefix."""
        pages = []
        for key in keys:
            page = self._pages.get(key)
            if page is None:
                break
            pages.append(page)
        return pages

    def use(self, keys: Sequence[Key], pages: Iterable[int]) -> None:
        """Keep pages from being let go; the end of a prefix counts as older than its beginning."""
        self._in_use.update(pages)
        for key in reversed(keys):
            self._pages.move_to_end(key)
        self._tell()

    def leave(self, pages: Iterable[int]) -> None:
        """Say that one request less uses the pages."""
        self._in_use -= Counter(pages)
        self._tell()

    def insert(self, entries: Sequence[tuple[Key, int]]) -> list[tuple[Key, int]]:
        """Take pages in; answer those whose key was new. The others are not taken."""
        new = [(key, page) for key, page in entries if key not in self._pages]
        for key, page in reversed(new):
            self._pages[key] = page
        self._tell()
        return new

    def evict(self, count: int) -> list[int]:
        """Let go of so many pages, those first that were not used for longest."""
        idle = (key for key, page in self._pages.items() if page not in self._in_use)
        chosen = [key for key, _ in zip(idle, range(count), strict=False)]
        pages = [self._pages.pop(key) for key in chosen]
        self._tell()
        return pages

    def clear(self) -> None:
        """Forget everything."""
        self._pages.clear()
        self._in_use.clear()
        self._tell()

    def _tell(self) -> None:
        self._pool.cached_pages = self.evictable
