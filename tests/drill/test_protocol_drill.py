"""The protocol model against the drill's own engines: each goes where the other says.

By steps: what one move of either side does, the other does from the same state, with the same
foreign reads. So whatever many moves of the drill lead to, the model reaches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from drill.guards import Guard
from drill.protocol.explore import Trace, canonical, explore
from drill.protocol.findings import Finding
from drill.protocol.guards import ProtocolGuards
from drill.protocol.moves import moves
from drill.protocol.state import EARLIER, EQUAL, INCIDENT, UNEQUAL, Decode, Setup, State
from drill.protocol.steps import NOT_PROGRESS, Kind, Move
from tests.drill.stepped import WIRE_S, Drill, Figures, Found, take

VERSIONS = ("0.5.19", "0.5.20", "0.5.21")
SWITCHED = (
    (),
    (Guard.DEFERRED_RELEASE,),
    (Guard.CHECKSUM,),
    (Guard.PAGE_TAGS,),
    (Guard.DEFERRED_RELEASE, Guard.CHECKSUM),
)
TIMEOUT_S = 300.0
ABORT_SHARE = 0.1
TIMEOUT_SHARE = 0.03
SEND_SHARE = 0.4

Place = tuple[Found, State]


@st.composite
def starts(draw: st.DrawFn) -> tuple[Figures, random.Random]:
    seed = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311 - walks, not secrets
    setup = draw(st.sampled_from((UNEQUAL, EQUAL)))
    figures = Figures(
        version=draw(st.sampled_from(VERSIONS)),
        setup=setup,
        lengths=tuple(seed.choice((*setup.lengths, 3)) for _ in range(3)),
        is_used=draw(st.booleans()),
        is_on_wire=draw(st.booleans()),
        switches=draw(st.sampled_from(SWITCHED)),
    )
    return figures, seed


def afterwards(drill: Drill, kind: Kind) -> list[frozenset[Kind]]:
    """Answer what the drill does at once after a move and the model move by move."""
    send = Kind.POST if drill.figures.is_on_wire else Kind.SEND
    return {
        Kind.COMPUTE: [frozenset({send, Kind.RETIRE})],
        Kind.DECODE_ADMIT: [frozenset({Kind.READ})],
        Kind.DECODE_ABORT: [frozenset({Kind.PREFILL_TOLD}), frozenset({Kind.RELEASE})],
        Kind.LAND: [frozenset({Kind.RELEASE})],
    }.get(kind, [])


#: What the drill does as part of another move, or by its clock; timed runs stand below.
NOT_PLAYED = frozenset(
    {
        Kind.BOOTSTRAP_TIMEOUT,
        Kind.DECODE_DOOR,
        Kind.PREFILL_DOOR,
        Kind.PREFILL_TOLD,
        Kind.READ,
        Kind.RELEASE,
        Kind.WAITING_TIMEOUT,
    }
)


def playable(drill: Drill, state: State) -> dict[tuple[Kind, int], list[Place]]:
    """Every move that the drill can make, with all places where the model says it may lead."""
    told: dict[tuple[Kind, int], list[Place]] = {}
    for move, after in moves(state, drill.guards, drill.figures.setup):
        if move.kind not in NOT_PLAYED:
            places = [(move.found, after)]
            for kinds in afterwards(drill, move.kind):
                places = [one for place in places for one in _followed(drill, move, kinds, place)]
            told.setdefault((move.kind, move.run), []).extend(places)
    return told


def _followed(drill: Drill, move: Move, kinds: frozenset[Kind], place: Place) -> list[Place]:
    found, state = place
    more = [
        (found | later.found, after)
        for later, after in moves(state, drill.guards, drill.figures.setup)
        if later.run == move.run and later.kind in kinds
    ]
    return more or [place]


def landed(drill: Drill, places: Iterable[Place]) -> set[tuple[Found, object]]:
    """Answer the places, and those after writes that the drill lets land at the worst moment."""

    def is_late(move: Move) -> bool:
        return move.kind in {Kind.LAND, Kind.RELEASE}

    return {one for place in places for one in closure(drill, place, is_late)}


def closure(
    drill: Drill, start: Place, is_allowed: Callable[[Move], bool]
) -> set[tuple[Found, object]]:
    """Everywhere that such moves lead, in any number, with what they find."""
    seen: set[tuple[Found, object]] = {(start[0], canonical(start[1]))}
    waiting = [start]
    while waiting:
        found, at = waiting.pop()
        for move, after in moves(at, drill.guards, drill.figures.setup):
            place = found | move.found, canonical(after)
            if is_allowed(move) and place not in seen:
                seen.add(place)
                waiting.append((found | move.found, after))
    return seen


@settings(max_examples=250, deadline=None)
@given(start=starts())
def test_the_drill_goes_wherever_the_model_goes(start: tuple[Figures, random.Random]) -> None:
    figures, draw = start
    drill = Drill.start(figures)
    for _ in figures.lengths:
        drill.send()
    for _ in range(40):
        choices = playable(drill, drill.state())
        if not choices:
            return
        wanted = [one for one in choices if one[0] not in NOT_PROGRESS]
        is_abort = not wanted or draw.random() < ABORT_SHARE
        kind, number = draw.choice(list(choices) if is_abort else wanted)
        event(str(kind))
        assert step_both(drill, kind, number)


class Walk:
    """The drill as it really runs: whole steps of its engines, clients that come and leave."""

    def __init__(self, drill: Drill, draw: random.Random) -> None:
        self.drill = drill
        self._draw = draw
        self._given_up: set[int] = set()

    def go(self) -> Callable[[Move], bool]:
        """Do something; answer which moves of the model may stand for it."""
        if self._draw.random() < ABORT_SHARE:
            return self._leave()
        if self._draw.random() < TIMEOUT_SHARE:
            self.drill.now[0] += TIMEOUT_S
        if self._draw.random() < TIMEOUT_SHARE:
            self.drill.now[0] += WIRE_S
        is_complete = len(self.drill.legs) == len(self.drill.figures.lengths)
        if not is_complete and self._draw.random() < SEND_SHARE:
            return self._send()
        return self._draw.choice([self._prefill, self._decode])()

    def _send(self) -> Callable[[Move], bool]:
        number = len(self.drill.legs)
        self.drill.send()
        doors = {Kind.DECODE_DOOR, Kind.PREFILL_DOOR}
        return lambda move: move.kind in doors and move.run == number

    def _prefill(self) -> Callable[[Move], bool]:
        self.drill.prefill.step()
        kinds = {Kind.PREFILL_ADMIT, Kind.COMPUTE, Kind.RETIRE, Kind.LAND, Kind.RELEASE}
        kinds.add(Kind.POST if self.drill.figures.is_on_wire else Kind.SEND)
        if self.drill.now[0] >= TIMEOUT_S:
            kinds.add(Kind.BOOTSTRAP_TIMEOUT)
        return lambda move: move.kind in kinds

    def _decode(self) -> Callable[[Move], bool]:
        self.drill.decode.step()
        kinds = {Kind.RESERVE, Kind.DECODE_ADMIT, Kind.READ, Kind.ANSWER, Kind.DECODE_RETIRE}
        kinds |= {Kind.LAND, Kind.RELEASE, Kind.PREFILL_TOLD}
        if self.drill.now[0] >= TIMEOUT_S:
            kinds.add(Kind.WAITING_TIMEOUT)
        given_up = set(self._given_up)
        return lambda move: (
            move.kind in kinds or (move.kind is Kind.DECODE_ABORT and move.run in given_up)
        )

    def _leave(self) -> Callable[[Move], bool]:
        if not self.drill.legs:
            return lambda _move: False
        number = self._draw.randrange(len(self.drill.legs))
        leg = self.drill.legs[number]
        which = self._draw.choice([("prefill",), ("decode",), ("prefill", "decode")])
        if "prefill" in which and not leg.prefill.finished():
            self.drill.prefill.abort(leg.prefill)
        if "decode" in which and not leg.decode.finished():
            self.drill.decode.abort(leg.decode)
            self._given_up.add(number)
        kinds = {Kind.PREFILL_ABORT, Kind.PREFILL_TOLD, Kind.DECODE_ABORT, Kind.RELEASE}
        return lambda move: move.kind in kinds and move.run == number


@settings(max_examples=200, deadline=None)
@given(start=starts())
def test_the_drill_never_goes_where_the_model_cannot(start: tuple[Figures, random.Random]) -> None:
    figures, draw = start
    walk = Walk(Drill.start(figures), draw)
    drill = walk.drill
    for _ in range(30):
        state, since = drill.state(), len(drill.found)
        is_allowed = walk.go()
        seen = drill.seen(since)
        event(f"saw {sorted(seen)}")
        assert (seen, canonical(drill.state())) in closure(drill, (frozenset(), state), is_allowed)


def _run_alone(figures: Figures) -> Drill:
    drill = Drill.start(figures)
    drill.send()
    while drill.prefill.step() + drill.decode.step():
        pass
    return drill


def played(trace: Trace, figures: Figures) -> Drill:
    """Play a trace of the model on the drill."""
    drill = Drill.start(figures)
    for _ in figures.lengths:
        drill.send()
    for step in trace.steps:
        if step.move.kind not in {Kind.SEND, Kind.POST, Kind.READ, Kind.PREFILL_TOLD}:
            take(drill, step.move.kind, drill.legs[step.move.run])
    answer = drill.legs[trace.steps[-1].move.run].decode
    assert answer.finished_reason is not None
    assert answer.finished_reason.kind == "length"
    return drill


def guards_in(figures: Figures) -> ProtocolGuards:
    return Drill.start(figures).guards


@pytest.mark.parametrize("switches", [(), (Guard.CHECKSUM,), (Guard.PAGE_TAGS,)])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("setup", [INCIDENT, UNEQUAL, EQUAL], ids=["incident", "unequal", "equal"])
@pytest.mark.parametrize("finding", [Finding.REFUSED_PROMPT, Finding.UNWRITTEN])
def test_the_incidents_trace_happens_in_the_drill_where_the_model_has_it(
    version: str, setup: Setup, finding: Finding, switches: tuple[Guard, ...]
) -> None:
    is_used = finding is Finding.REFUSED_PROMPT
    figures = Figures(
        version=version, setup=setup, lengths=(1,), is_used=is_used, switches=switches
    )
    alone = replace(setup, requests=1, has_aborts=False)
    trace = explore(alone, guards_in(figures)).trace_to(finding)
    assert (trace is not None) is (version == "0.5.19" and setup is not EQUAL and not switches)
    if trace is not None:
        assert (trace.start.contents[0].writer == EARLIER) is is_used
        lengths = tuple(run.length for run in trace.start.runs)
        assert played(trace, replace(figures, lengths=lengths)).seen(0) == {finding}
    for length in range(1, setup.decode_longest + 2):
        drill = _run_alone(replace(figures, lengths=(length,)))
        assert trace is not None or not drill.seen(0)


def step_both(drill: Drill, kind: Kind, number: int) -> bool:
    """Take a move that the model allows, hold both against each other; tell whether it does."""
    choices = playable(drill, drill.state())
    if (kind, number) not in choices:
        return False
    since = len(drill.found)
    take(drill, kind, drill.legs[number])
    place = drill.seen(since), canonical(drill.state())
    assert place in landed(drill, choices[kind, number])
    return True


GIVEN_UP_ON_THE_WIRE = (Kind.RESERVE, Kind.PREFILL_ADMIT, Kind.COMPUTE, Kind.DECODE_ABORT)
NEXT_OWNER = (Kind.PREFILL_ADMIT, Kind.COMPUTE, Kind.LAND, Kind.DECODE_ADMIT)


@pytest.mark.parametrize("switches", SWITCHED)
def test_a_late_write_is_read_in_both_or_in_neither(switches: tuple[Guard, ...]) -> None:
    """Five pages and twice three: the second request gets pages of the first."""
    figures = Figures(
        version="0.5.20",
        setup=EQUAL,
        lengths=(3, 3),
        is_used=True,
        is_on_wire=True,
        switches=switches,
    )
    drill = Drill.start(figures)
    for _ in figures.lengths:
        drill.send()
    assert all(step_both(drill, kind, 0) for kind in GIVEN_UP_ON_THE_WIRE)
    is_held = not step_both(drill, Kind.RESERVE, 1)
    assert is_held is (Guard.DEFERRED_RELEASE in switches)
    if is_held:
        assert step_both(drill, Kind.LAND, 0)
        assert step_both(drill, Kind.RESERVE, 1)
    assert all(step_both(drill, kind, 1) for kind in NEXT_OWNER)
    assert drill.seen(0) == (frozenset() if switches else {Finding.LATE_WRITE})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("setup", [UNEQUAL, EQUAL], ids=["unequal", "equal"])
def test_who_waits_in_the_model_waits_in_the_drill(version: str, setup: Setup) -> None:
    for length in setup.lengths:
        figures = Figures(version=version, setup=setup, lengths=(length,), is_used=True)
        alone = replace(setup, lengths=(length,), requests=1, has_aborts=False)
        found = explore(alone, guards_in(figures)).findings
        place = _run_alone(figures).state().runs[0].decode
        assert (place is Decode.RESERVED) is (Finding.HELD_RESERVATION in found)
        assert (place is Decode.QUEUED) is (Finding.WAITS_FOR_EVER in found)
