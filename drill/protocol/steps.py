"""The kinds of move, and one request seen in one state."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from drill.protocol.findings import Finding
from drill.protocol.guards import ProtocolGuards
from drill.protocol.state import Content, Run, Setup, State, Way


class Kind(StrEnum):
    """One kind of move."""

    RESERVE = "reserve"
    DECODE_DOOR = "decode-door"
    DECODE_ADMIT = "decode-admit"
    DECODE_RETIRE = "decode-retire"
    READ = "read"
    ANSWER = "answer"
    COPY = "copy"
    RELEASE = "release"
    HOLD_TIMEOUT = "hold-timeout"
    WAITING_TIMEOUT = "waiting-timeout"
    DECODE_ABORT = "decode-abort"
    PREFILL_DOOR = "prefill-door"
    PREFILL_ADMIT = "prefill-admit"
    COMPUTE = "compute"
    RETIRE = "retire"
    SEND = "send"
    POST = "post"
    LAND = "land"
    PREFILL_TOLD = "prefill-told"
    PREFILL_ABORT = "prefill-abort"
    BOOTSTRAP_TIMEOUT = "bootstrap-timeout"


NOT_PROGRESS = frozenset(
    {
        Kind.HOLD_TIMEOUT,
        Kind.WAITING_TIMEOUT,
        Kind.DECODE_ABORT,
        Kind.PREFILL_ABORT,
        Kind.BOOTSTRAP_TIMEOUT,
    }
)
"""What nobody may count on: time-outs, and clients that give up."""


class Move(NamedTuple):
    """A step of one request, and what it breaks."""

    kind: Kind
    run: int
    found: frozenset[Finding] = frozenset()


Step = tuple[Move, State]
"""A move and the state that it leads to."""


class Here(NamedTuple):
    """One request in one state, under guards and bounds."""

    state: State
    number: int
    run: Run
    guards: ProtocolGuards
    setup: Setup

    def to(self, kind: Kind, **changes: Any) -> Step:  # noqa: ANN401 fields of many types
        """Answer a step after which only this request stands elsewhere."""
        return self.to_state(kind, self.state, **changes)

    def to_state(self, kind: Kind, state: State, **changes: Any) -> Step:  # noqa: ANN401
        """Answer a step into another state, where this request stands elsewhere too."""
        return Move(kind, self.number), state.with_run(self.number, self.run._replace(**changes))

    def releasing(self, kind: Kind, **changes: Any) -> Step:  # noqa: ANN401
        """Answer a step that frees the pages of this request; what they hold stays."""
        if not self.run.holds:
            return self.to(kind, **changes)
        free = tuple(sorted((*self.state.free, *self.run.pages)))
        return self.to_state(kind, self.state._replace(free=free), holds=False, **changes)

    def written(self, pages: tuple[int, ...], content: Content) -> State:
        """Answer the state after a write, which nobody checks against the owner of the page."""
        contents = list(self.state.contents)
        for page in pages:
            contents[page] = content
        return self.state._replace(contents=tuple(contents))

    def seen(self) -> frozenset[Finding]:
        """Answer what a read of all its pages finds that this request did not write."""
        contents = (self.state.contents[page] for page in self.run.pages)
        return frozenset(
            Finding.UNWRITTEN if one.is_unwritten else _BY_WAY[one.way]
            for one in contents
            if one.writer != self.number
        )


_BY_WAY = {
    Way.BEFORE: Finding.REFUSED_PROMPT,
    Way.SENT: Finding.HOST_COPY,
    Way.LATE: Finding.LATE_WRITE,
    Way.SWAPPED: Finding.REUSED_SOURCE,
}
