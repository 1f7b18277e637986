"""What the schedulers of all roles share: admission, limits, pages and the forward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable

from drill.attention import Attended, attended
from drill.books import Books, Trace
from drill.guards import Guards
from drill.lagging import Lagging
from drill.limits import (
    CLIP_MAX_NEW_TOKENS,
    clipped_max_new_tokens,
    length_refusal,
    max_req_len,
)
from drill.model import Speaker, visible
from drill.pool import PagePool
from drill.prompt_pages import PromptPages
from drill.request import BAD_REQUEST, INTERNAL_ERROR, STUB_TOKEN, Req
from drill.sending import TAGS_DIFFER
from drill.settings import NodeSettings
from drill.styles import Style
from drill.world import World

_WRITERS_REMEMBERED = 4096


class Sight:
    """How answers show foreign slots; one for the cluster, switched while it runs."""

    def __init__(self, style: Style = Style.PLAIN) -> None:
        self.style = style


class Engine(ABC):
    """One engine process: it takes requests and moves them one step at a time."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        sight: Sight,
        clock: Callable[[], float],
        world: World | None = None,
    ) -> None:
        self.settings = settings
        self.pool = PagePool(capacity=settings.pool, page_size=settings.page_size)
        self._world = world or World()
        self.prompts = PromptPages(self.pool, settings, world=self._world, clock=clock)
        self.books = Books()
        self._sight = sight
        self._clock = clock
        self._rids: dict[int, str] = {}
        self._held: list[tuple[Req, list[int], Lagging]] = []

    @property
    def guards(self) -> Guards:
        """Answer the guards that stand on this node now."""
        return self._world.switches.of(self.settings.version)

    @property
    def held(self) -> int:
        """Answer how many requests have ended whose pages are still held."""
        return len(self._held)

    @abstractmethod
    def step(self) -> bool:
        """Move every queue once; tell whether anything changed."""

    @abstractmethod
    def abort(self, req: Req) -> None:
        """Give a request up because its client left."""

    @property
    @abstractmethod
    def is_blocked(self) -> bool:
        """Tell whether the head of a queue finds no room, so that all behind it wait."""

    @abstractmethod
    def next_deadline(self) -> float | None:
        """Answer when a waiting request runs out of time, on the engine's clock."""

    @abstractmethod
    def queue_lengths(self) -> dict[str, int]:
        """Answer the queue figures under their names in `/v1/loads`."""

    def die(self) -> None:  # noqa: B027 a role without partners has nobody to tell
        """Let go of the legs on other nodes, as the death of the process does."""

    @abstractmethod
    def _enqueue(self, req: Req) -> None:
        """Put an admitted request into the first queue of the role."""

    def submit(self, req: Req) -> None:
        """Take a request as SGLang's scheduler does: clip, validate by the own limit, queue."""
        req.entered_at = self._clock()
        self._remember(req)
        length = len(req.input_ids)
        pool = self.pool
        req.max_new_tokens = clipped_max_new_tokens(
            req.max_new_tokens,
            length=length,
            max_len=max_req_len(self.settings.context, self.settings.pool),
            room=pool.capacity - (pool.pages_for(length) + 1) * pool.page_size,
        )
        refusal = length_refusal(length, self.settings.first_refused)
        if refusal is not None:
            req.set_finish_with_abort(refusal)
            self.books.log.append(f"ERROR {refusal}, self.rid='{req.rid}'")
        self._enqueue(req)

    def _refuse_at_door(self, req: Req) -> bool:
        """End a request with a pending refusal before anything is reserved, where guarded."""
        if not (self.guards.refuses_at_door and req.to_finish is not None):
            return False
        req.update_finish_state()
        self._conclude(req)
        return True

    def _refuse_without_room(self, req: Req) -> bool:
        """End a leg that cannot meet its other leg. Source: SGLang 0.5.19 scheduler."""
        if req.bootstrap.room is not None:
            return False
        message = (
            "Invalid request: Disaggregated request received without bootstrap room id. "
            f"req.rid='{req.rid}'"
        )
        self.books.log.append(f"ERROR {message}")
        req.fail(message, BAD_REQUEST)
        self._conclude(req)
        return True

    def _forward(self, req: Req) -> int | None:
        """Compute the prompt into its pages; answer the first token, None when out of pages."""
        if not self._take_pages(req):
            return None
        slots = self.pool.slots(req.pages, len(req.input_ids))
        known = req.cached_tokens
        self.pool.write(slots[known:], req.input_ids[known:], req.serial)
        self.books.counts["prefill_tokens"] += len(slots) - known
        self._count_cached(req)
        speaker = self._speaker(req)
        return STUB_TOKEN if speaker is None else speaker.next()

    def _count_cached(self, req: Req) -> None:
        self.books.counts.update({f"cached_{tier}": count for tier, count in req.cached.items()})

    def _take_pages(self, req: Req) -> bool:
        """Take the pages of a prompt, once; tell whether they could be had."""
        if not req.pages and self._is_schedulable(req):
            self.prompts.take(req)
        return bool(req.pages)

    def _is_schedulable(self, req: Req) -> bool:
        """Tell whether prompt, new tokens and one page together stay below the free pool.

        Source: SGLang 0.5.19 to 0.5.23, schedule_policy, PrefillAdder.add_one_req.
        """
        new_tokens = min(req.max_new_tokens or 0, CLIP_MAX_NEW_TOKENS)
        needed = len(req.input_ids) + new_tokens + self.pool.page_size
        return needed < self.prompts.room

    def _attended(self, req: Req, slots: list[int]) -> Attended:
        return attended(req, slots, pool=self.pool, origins=self._world.origins)

    def _speaker(self, req: Req) -> Speaker | None:
        """Attend over all slots of the prompt and of what was said; note which ones.

        Where pages are tagged, a slot that the request has no right to ends it instead: None.
        """
        written = len(req.input_ids) + max(0, len(req.output_ids) - 1)
        slots = self.pool.slots(req.pages, written)
        seen = self._attended(req, slots)
        trace = Trace(
            rid=req.rid,
            serial=req.serial,
            transferred=req.transferred,
            slots=array("q", slots),
            writers=array("q", seen.writers),
            rids={key: self._rids[key] for key in set(seen.writers) & self._rids.keys()},
            shared=seen.shared,
        )
        if self.guards.tags_pages and trace.not_own:
            self.books.log.append(f"ERROR {TAGS_DIFFER} req={req.rid}")
            req.fail(TAGS_DIFFER, INTERNAL_ERROR)
            return None
        self.books.note(trace)
        tokens, writers = seen.prompt_as_seen_by(req)
        style = self._sight.style
        return Speaker(visible(tokens, writers, reader=req.serial, style=style), style)

    def _release(self, req: Req) -> None:
        """Part with the pages of a request; what it computed may stay in the cache."""
        self.prompts.let_go(req, is_computed=bool(req.output_ids) and req.to_finish is None)

    def _hold(self, req: Req, wire: Lagging) -> None:
        """Keep the pages of a request that has ended until a write to them has landed."""
        self._held.append((req, req.pages, wire))
        req.pages = []

    def _do_what_lags(self) -> bool:
        """Do what is due on the pool, free what was held for it; tell whether anything was."""
        has_moved = self.pool.backlog.run_due(self._clock())
        for entry in [one for one in self._held if one[2].is_done]:
            self._held.remove(entry)
            self.pool.give_back(entry[1])
            self.books.counts["deferred_releases"] += 1
            has_moved = True
        return has_moved

    def _lag_deadlines(self) -> list[float]:
        """Answer when something that lags is due, if anything is."""
        due_at = self.pool.backlog.next_due
        return [] if due_at is None else [due_at]

    def _conclude(self, req: Req) -> None:
        """Free what a finished request holds and tell its client."""
        self._release(req)
        self.books.counts["requests"] += 1
        self.books.counts["prompt_tokens"] += len(req.input_ids)
        self.books.counts["generation_tokens"] += len(req.output_ids)
        req.on_change(req)

    def _remember(self, req: Req) -> None:
        self._world.origins.note(req.serial, req.salt)
        if len(self._rids) >= _WRITERS_REMEMBERED:
            every_slot = range(self.pool.capacity + self.pool.page_size)
            alive = set(self.pool.writers_of(every_slot))
            self._rids = {key: rid for key, rid in self._rids.items() if key in alive}
        self._rids[req.serial] = req.rid
