"""Breadth-first through every state within the bounds, with the shortest way to each finding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from drill.protocol.findings import Finding
from drill.protocol.guards import ProtocolGuards
from drill.protocol.moves import moves
from drill.protocol.state import NOBODY, Content, Decode, Prefill, Run, Setup, State
from drill.protocol.steps import NOT_PROGRESS, Kind, Move, Step

Key = tuple[object, ...]

_PAGES = Run._fields.index("pages")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One move of a trace, with the states around it."""

    move: Move
    before: State
    after: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A shortest way to a finding; a read that should not be is followed by its answer.

    A finding that is no read lies in the last step, or in where it ends.
    """

    finding: Finding
    start: State
    steps: tuple[TraceStep, ...]

    @property
    def end(self) -> State:
        """Answer the state that the trace leads to."""
        return self.steps[-1].after if self.steps else self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What an exploration to the last state found. Shape: one shortest trace a finding."""

    setup: Setup
    guards: ProtocolGuards
    states: int
    steps: int
    depth: int
    traces: tuple[Trace, ...]

    @property
    def findings(self) -> frozenset[Finding]:
        """Answer everything that is reachable."""
        return frozenset(trace.finding for trace in self.traces)

    @property
    def foreign_reads(self) -> frozenset[Finding]:
        """Answer the reachable ways to read what another request wrote."""
        return frozenset(one for one in self.findings if one.is_foreign_read)

    def trace_to(self, finding: Finding) -> Trace | None:
        """Answer the shortest trace to a finding, None where it cannot be reached."""
        return next((trace for trace in self.traces if trace.finding is finding), None)


@lru_cache(maxsize=128)
def explore(setup: Setup, guards: ProtocolGuards) -> Exploration:
    """Answer what every reachable state within the bounds shows; the same question is kept."""
    search = _Search(setup, guards)
    depth = 0
    layer = [state for state in setup.starts() if search.is_new(state, None)]
    while layer:
        layer = [after for state in layer for after in search.expand(state)]
        depth += bool(layer)
    return Exploration(
        setup=setup,
        guards=guards,
        states=len(search.origins),
        steps=search.steps,
        depth=depth,
        traces=tuple(search.traces.values()),
    )


class _Search:
    """What is known so far: where each state was first reached from, and what was found."""

    def __init__(self, setup: Setup, guards: ProtocolGuards) -> None:
        self._setup = setup
        self._guards = guards
        self.origins: dict[Key, Step | None] = {}
        self.traces: dict[Finding, Trace] = {}
        self.steps = 0

    def is_new(self, state: State, origin: Step | None) -> bool:
        """Tell whether no state that differs in page numbers alone was seen; keep it then."""
        key = canonical(state)
        if key in self.origins:
            return False
        self.origins[key] = origin
        return True

    def expand(self, state: State) -> Iterator[State]:
        """Answer the new states after one, noting what its moves and its rest show."""
        steps = list(moves(state, self._guards, self._setup))
        self.steps += len(steps)
        if not steps or steps[0][0].kind in NOT_PROGRESS:
            self._note(stuck(state, steps), state, None)
        for move, after in steps:
            found = move.found
            if self.is_new(after, (move, state)):
                found |= _owned_twice(after)
                yield after
            if found:
                self._note(found, state, TraceStep(move=move, before=state, after=after))

    def _note(self, found: frozenset[Finding], state: State, last: TraceStep | None) -> None:
        for finding in sorted(found - self.traces.keys()):
            steps = (*self._way_to(state), *([last] if last else []))
            start = steps[0].before if steps else state
            if last and last.move.kind is Kind.READ:
                steps = (*steps, self._answer_after(last))
            self.traces[finding] = Trace(finding=finding, start=start, steps=steps)

    def _answer_after(self, read: TraceStep) -> TraceStep:
        """Answer how the client gets what was read."""
        wanted = Kind.ANSWER, read.move.run
        steps = moves(read.after, self._guards, self._setup)
        move, after = next(one for one in steps if (one[0].kind, one[0].run) == wanted)
        return TraceStep(move=move, before=read.after, after=after)

    def _way_to(self, state: State) -> tuple[TraceStep, ...]:
        steps: list[TraceStep] = []
        while (origin := self.origins[canonical(state)]) is not None:
            move, earlier = origin
            steps.append(TraceStep(move=move, before=earlier, after=state))
            state = earlier
        return tuple(reversed(steps))


def stuck(state: State, steps: list[Step]) -> frozenset[Finding]:
    """Answer who waits for what will not come, where nothing moves but time-outs and clients."""
    kinds = {move.kind for move, _ in steps}
    found: set[Finding] = set()
    if kinds <= NOT_PROGRESS:
        if any(_holds_for_nothing(run.prefill, run.decode) for run in state.runs):
            found.add(Finding.HELD_RESERVATION)
        is_queued = any(run.decode is Decode.QUEUED for run in state.runs)
        frees = {Kind.WAITING_TIMEOUT, Kind.HOLD_TIMEOUT}
        if is_queued and not kinds & frees:
            found.add(Finding.WAITS_FOR_EVER)
    return frozenset(found)


def _holds_for_nothing(prefill: Prefill, decode: Decode) -> bool:
    return prefill is Prefill.REFUSED and decode is Decode.RESERVED


def _owned_twice(state: State) -> frozenset[Finding]:
    owned = [page for run in state.runs if run.holds for page in run.pages]
    every = sorted((*owned, *state.free))
    is_whole = every == list(range(len(state.contents)))
    return frozenset() if is_whole else frozenset({Finding.OWNED_TWICE})


def canonical(state: State) -> Key:
    """Answer what states have in common that differ in the numbers of pages alone.

    Whose old content a page holds matters to no later move: only whether a reader of it wrote it.
    """
    count = len(state.contents)
    owners = [NOBODY] * count
    reached: list[Key] = [()] * count
    for number, run in enumerate(state.runs):
        is_read_later = run.decode is Decode.COPYING
        for place, page in enumerate(run.pages):
            reached[page] = (*reached[page], number, place)
            if run.holds:
                owners[page] = number
            if is_read_later:
                content = state.contents[page]
                reached[page] = (*reached[page], content.writer == number, content.way)
    looks = map(_look, state.contents, owners)
    pages = sorted(zip(owners, looks, reached, strict=True))
    return (*(run[:_PAGES] + run[_PAGES + 1 :] for run in state.runs), *pages)


def _look(content: Content, owner: int) -> int:
    writer, way = content
    if writer == NOBODY:
        return 0
    if writer == owner:
        return 1
    return 2 if owner == NOBODY else 2 + way
