"""What the schedulers of all roles share: admission, limits, pages and the forward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable

from drill.books import Books, Trace
from drill.guards import guards_of
from drill.limits import clipped_max_new_tokens, length_refusal, max_req_len
from drill.model import Speaker, Style, visible
from drill.pool import PagePool
from drill.request import BAD_REQUEST, Req
from drill.settings import NodeSettings

_WRITERS_REMEMBERED = 4096


class Sight:
    """How foreign slots look to the model; one for the cluster, switched while it runs."""

    def __init__(self, style: Style = Style.PLAIN) -> None:
        self.style = style


class Engine(ABC):
    """One engine process: it takes requests and moves them one step at a time."""

    def __init__(self, settings: NodeSettings, *, sight: Sight, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.pool = PagePool(capacity=settings.pool, page_size=settings.page_size)
        self.guards = guards_of(settings.version)
        self.books = Books()
        self._sight = sight
        self._clock = clock
        self._rids: dict[int, str] = {}

    @abstractmethod
    def step(self) -> bool:
        """Move every queue once; tell whether anything changed."""

    @abstractmethod
    def abort(self, req: Req) -> None:
        """Give a request up because its client left."""

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
        """Compute the prompt into fresh pages; answer the first token, None when out of pages."""
        pages = self.pool.take(self.pool.pages_for(len(req.input_ids)))
        if pages is None:
            return None
        req.pages = pages
        slots = self.pool.slots(pages, len(req.input_ids))
        self.pool.write(slots, req.input_ids, req.serial)
        self.books.counts["prefill_tokens"] += len(slots)
        return self._speaker(req).next()

    def _speaker(self, req: Req) -> Speaker:
        """Attend over all slots of the prompt and note which ones."""
        slots = self.pool.slots(req.pages, len(req.input_ids))
        writers = self.pool.writers_of(slots)
        self.books.traces.append(
            Trace(
                rid=req.rid,
                serial=req.serial,
                transferred=req.transferred,
                slots=array("q", slots),
                writers=array("q", writers),
                rids={key: self._rids[key] for key in set(writers) & self._rids.keys()},
            )
        )
        tokens = self.pool.tokens_at(slots)
        return Speaker(visible(tokens, writers, reader=req.serial, style=self._sight.style))

    def _conclude(self, req: Req) -> None:
        """Free what a finished request holds and tell its client."""
        self.pool.give_back(req.pages)
        req.pages = []
        self.books.counts["requests"] += 1
        self.books.counts["prompt_tokens"] += len(req.input_ids)
        self.books.counts["generation_tokens"] += len(req.output_ids)
        req.on_change(req)

    def _remember(self, req: Req) -> None:
        if len(self._rids) >= _WRITERS_REMEMBERED:
            every_slot = range(self.pool.capacity + self.pool.page_size)
            alive = set(self.pool.writers_of(every_slot))
            self._rids = {key: rid for key, rid in self._rids.items() if key in alive}
        self._rids[req.serial] = req.rid
