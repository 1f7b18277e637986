"""What a request attends: what its slots hold, who wrote it, and what is shared by right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drill.pool import PagePool
from drill.request import Req
from drill.world import Origins


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """The slots of a prompt as they stand now.

    Shape: one entry an attended position, in order. `shared` are the positions that another request
    of the same salt wrote and left to the prefix cache, page by page, with this prompt's tokens.
    """

    slots: Sequence[int]
    tokens: Sequence[int]
    writers: Sequence[int]
    shared: frozenset[int] = frozenset()

    def as_seen_by(self, reader: int) -> Sequence[int]:
        """Answer the writers, the reader itself in place of those who share with it."""
        if not self.shared:
            return self.writers
        return [reader if at in self.shared else one for at, one in enumerate(self.writers)]

    def prompt_as_seen_by(self, req: Req) -> tuple[Sequence[int], Sequence[int]]:
        """Answer tokens and writers of the prompt alone: the model speaks of nothing else."""
        length, writers = len(req.input_ids), self.as_seen_by(req.serial)
        if length == len(self.slots):
            return self.tokens, writers
        return self.tokens[:length], writers[:length]


def attended(req: Req, slots: Sequence[int], *, pool: PagePool, origins: Origins) -> Attended:
    """Answer what slots hold for a request."""
    tokens, writers = pool.tokens_at(slots), pool.writers_of(slots)
    shared: set[int] = set()
    for start in range(0, req.cached_tokens, pool.page_size):
        page = range(start, start + pool.page_size)
        has_right = all(
            tokens[at] == req.input_ids[at]
            and (writers[at] == req.serial or origins.salt_of(writers[at]) == req.salt)
            for at in page
        )
        if has_right:
            shared.update(at for at in page if writers[at] != req.serial)
    return Attended(slots=slots, tokens=tokens, writers=writers, shared=frozenset(shared))
