"""The pages of prompts on a node that computes them: cached ones, copies, fresh ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drill.guards import Guards
from drill.lagging import Lagging
from drill.pool import PagePool
from drill.prefix_cache import Key, PrefixCache, keys_of
from drill.request import Req
from drill.settings import NodeSettings
from drill.tiers import DiskTier, HostTier, PageCopy, Tier
from drill.world import World

_TIER_IN_POOLS = 8
"""How much larger than the pool a tier is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is known of a prompt already: shared pages, then copies and the tier of each."""

    keys: list[Key]
    shared: list[int]
    copies: list[tuple[str, PageCopy]]


class PromptPages:
    """Takes pages for prompts and gives them back. Without a cache every page is a fresh one."""

    def __init__(
        self,
        pool: PagePool,
        settings: NodeSettings,
        *,
        world: World,
        clock: Callable[[], float],
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._world = world
        self._clock = clock
        has_cache = settings.has_prefix_cache
        self.cache = PrefixCache(pool) if has_cache else None
        capacity = pool.page_count * _TIER_IN_POOLS
        self.host = HostTier(capacity) if has_cache and settings.has_host_tier else None
        self.disk = (
            DiskTier(
                world.directory_of(settings.name),
                page_size=pool.page_size,
                capacity=capacity,
                looks_at_keys=lambda: self._guards.has_whole_tier_keys,
            )
            if has_cache and settings.has_disk_tier
            else None
        )
        self.evicted_tokens = 0

    @property
    def _guards(self) -> Guards:
        return self._world.switches.of(self._settings.version)

    @property
    def room(self) -> int:
        """Answer the tokens that can be had: free ones, and what the cache can let go of."""
        return self._pool.available + self._pool.cached_pages * self._pool.page_size

    def take(self, req: Req) -> bool:
        """Take the pages of a prompt; tell whether they could be had."""
        if self.cache is None:
            req.pages = self._pool.take(self._pool.pages_for(len(req.input_ids))) or []
            return bool(req.pages)
        found = self._find(req)
        self.cache.use(found.keys[: len(found.shared)], found.shared)
        fresh = self._fresh(self._pool.pages_for(len(req.input_ids)) - len(found.shared))
        if fresh is None:
            self.cache.leave(found.shared)
            return False
        req.pages, req.shared_pages = found.shared + fresh, len(found.shared)
        size = self._pool.page_size
        req.cached = {"device": len(found.shared) * size}
        for page, (tier, copy) in zip(fresh, found.copies, strict=False):
            slots = self._pool.slots([page], size)
            self._pool.copy_in(slots, copy.tokens, copy.writers, by=req.serial)
            req.cached[tier] = req.cached.get(tier, 0) + size
        return True

    def _find(self, req: Req) -> _Found:
        """Look a prompt up; at least its last token is computed."""
        size = self._pool.page_size
        known = req.input_ids[: (len(req.input_ids) - 1) // size * size]
        keys = keys_of(known, size, self._salt(req))
        shared = self.cache.match(keys) if self.cache else []
        copies: list[tuple[str, PageCopy]] = []
        disk_keys = self._disk_keys(req, keys) if self.disk else keys
        for key, disk_key in zip(keys[len(shared) :], disk_keys[len(shared) :], strict=True):
            copy = self._load(key, disk_key)
            if copy is None:
                break
            copies.append(copy)
        return _Found(keys=keys, shared=shared, copies=copies)

    def _load(self, key: Key, disk_key: Key) -> tuple[str, PageCopy] | None:
        sources: list[tuple[Tier | None, Key]] = [(self.host, key), (self.disk, disk_key)]
        for tier, wanted in sources:
            copy = tier.load(wanted) if tier is not None else None
            if tier is not None and copy is not None:
                return tier.name, copy
        return None

    def _salt(self, req: Req) -> str | None:
        return req.salt if self._guards.salts_keys else None

    def _disk_keys(self, req: Req, keys: list[Key]) -> list[Key]:
        """Answer the keys on disk: whole ones have the salt and the layout in them."""
        size = self._pool.page_size
        tokens = req.input_ids[: len(keys) * size]
        if not self._guards.has_whole_tier_keys:
            return keys_of(tokens, size, None)
        return keys_of(tokens, size, f"{self._settings.model}/{size}/{req.salt!r}")

    def _fresh(self, count: int) -> list[int] | None:
        """Take pages, letting go of cached ones where too few are free."""
        short = count - self._pool.available // self._pool.page_size
        if self.cache is not None and 0 < short <= self.cache.evictable:
            evicted = self.cache.evict(short)
            self.evicted_tokens += len(evicted) * self._pool.page_size
            self._give_back(evicted)
        return self._pool.take(count)

    def let_go(self, req: Req, *, is_computed: bool) -> None:
        """Take back what a request held; the whole pages of a computed prompt are kept."""
        pages, shared = req.pages, req.shared_pages
        req.pages, req.shared_pages = [], 0
        if self.cache is None:
            self._give_back(pages)
            return
        self.cache.leave(pages[:shared])
        size = self._pool.page_size
        whole = len(req.input_ids) // size if is_computed else 0
        tokens = req.input_ids[: whole * size]
        keys = keys_of(tokens, size, self._salt(req))
        kept = self.cache.insert(list(zip(keys, pages, strict=False))[shared:])
        taken = {page for _, page in kept}
        self._give_back([page for page in pages[shared:] if page not in taken])
        if kept:
            on_disk = dict(zip(keys, self._disk_keys(req, keys), strict=True))
            self._to_disk([(on_disk[key], page) for key, page in kept])
            self._to_host(req, kept)

    def _to_disk(self, kept: list[tuple[Key, int]]) -> None:
        """Copy new pages to disk at once; what is there already is not written again."""
        if self.disk is None:
            return
        for key, page in kept:
            if self.disk.load(key) is None:
                self.disk.store(key, self._copy_of(page))
        self.disk.save()

    def _to_host(self, req: Req, kept: list[tuple[Key, int]]) -> None:
        """Copy new pages to host memory, a little later."""
        if self.host is None:
            return
        tags = {page: self._copy_of(page).writers for _, page in kept}

        def copy() -> None:
            for key, page in kept:
                now = self._copy_of(page)
                if self.host is not None and not (
                    self._guards.tags_pages and now.writers != tags[page]
                ):
                    self.host.store(key, now)

        lagging = Lagging(
            pages=frozenset(tags),
            owner=req.serial,
            due_at=self._clock() + self._settings.offload_s,
            act=copy,
        )
        self._pool.backlog.add(lagging)

    def _copy_of(self, page: int) -> PageCopy:
        slots = self._pool.slots([page], self._pool.page_size)
        return PageCopy(tokens=self._pool.tokens_at(slots), writers=self._pool.writers_of(slots))

    def _give_back(self, pages: list[int]) -> None:
        """Free pages; where guarded, what still reads or writes them is done first."""
        if self._guards.defers_release:
            self._pool.backlog.finish_on(pages)
        self._pool.give_back(pages)

    def flush(self) -> None:
        """Forget the cache and free every page; the disk keeps what it has."""
        if self._guards.defers_release:
            self._pool.backlog.finish_on(range(1, self._pool.page_count + 1))
        if self.cache is not None:
            self.cache.clear()
        if self.host is not None:
            self.host.clear()
        self._pool.forget_owners()
