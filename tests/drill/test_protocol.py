"""The protocol model: the incident's steps, what each guard leaves, and that nothing is skipped."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from drill.protocol import decode_moves
from drill.protocol.compare import Comparison, compare, every_set
from drill.protocol.explore import Exploration, canonical, explore
from drill.protocol.findings import Finding
from drill.protocol.guards import GUARD_WORDS, ProtocolGuards, guards_named, guards_of_version
from drill.protocol.moves import moves
from drill.protocol.state import EARLIER, EQUAL, INCIDENT, UNEQUAL, Decode, Setup, State
from drill.protocol.steps import Here, Kind, Step
from drill.protocol.words import before, lines
from drill.settings import WrongFigure

NONE = ProtocolGuards()
STUB, LATE = Finding.REFUSED_PROMPT, Finding.LATE_WRITE
SOURCE, COPY = Finding.REUSED_SOURCE, Finding.HOST_COPY

#: The seven steps as the incident's report has them: which move, by whom, and what is said of it.
SEVEN = [
    (Kind.RESERVE, "decode", ("router tells decode the prompt length", "8 pages", "reserves 8")),
    (Kind.PREFILL_ADMIT, "prefill", ("admits", "has refused")),
    (Kind.COMPUTE, "prefill", ("runs one token",)),
    (Kind.SEND, "prefill", ("sends 1 page", '"transfer complete"')),
    (Kind.DECODE_ADMIT, "decode", ("admits", "the same check")),
    (Kind.READ, "decode", ("all 8 pages", "page 0 its own", "pages 1-7", "tenant A's earlier")),
    (Kind.ANSWER, "client", ("HTTP 200 instead of 400", "8 pages", "text of tenant A's")),
]


def test_the_incident_is_its_seven_steps_in_order() -> None:
    trace = explore(INCIDENT, NONE).trace_to(STUB)
    assert trace is not None
    assert "earlier request of tenant A left" in before(trace)
    assert [step.move.kind for step in trace.steps] == [kind for kind, _, _ in SEVEN]
    for line, (_, actor, said) in zip(lines(trace, INCIDENT), SEVEN, strict=True):
        assert line.actor == actor
        assert all(words in line.text for words in said), line.text


def test_the_incident_reads_seven_pages_of_the_tenant_before() -> None:
    trace = explore(INCIDENT, NONE).trace_to(STUB)
    assert trace is not None
    at = trace.steps[5].before
    assert [at.contents[page].writer for page in at.runs[0].pages] == [0] + [EARLIER] * 7


def test_new_pages_give_the_same_steps_but_nobodys_text() -> None:
    trace = explore(INCIDENT, NONE).trace_to(Finding.UNWRITTEN)
    assert trace is not None
    assert [step.move.kind for step in trace.steps] == [kind for kind, _, _ in SEVEN]
    assert "pages 1-7 never written" in lines(trace, INCIDENT)[5].text


#: As UNEQUAL, with a page less for everybody: half the states and the same faults.
NARROW = Setup(decode_pages=3, prefill_longest=1, decode_longest=3, lengths=(1, 2, 3), requests=2)

#: What must remain, by what each guard does (not by what the exploration said).
REMAINS = [
    ((), {STUB, LATE, SOURCE}),
    (("door",), {LATE, SOURCE}),
    (("retire",), {LATE, SOURCE}),
    (("deferred-release",), {STUB, LATE}),  # freed anyway after 30 s
    (("bounded-transfer",), {STUB, LATE, SOURCE}),  # bounds nothing where nothing is held
    (("checksum",), {LATE}),  # looks once, before the late write
    (("page-tags",), set()),
    (("door", "checksum"), {LATE}),
    (("door", "deferred-release"), {LATE}),
    (("deferred-release", "bounded-transfer"), {STUB}),
    (("deferred-release", "bounded-transfer", "checksum"), set()),
    (("door", "deferred-release", "bounded-transfer"), set()),
    (("retire", "deferred-release", "bounded-transfer"), set()),
    (tuple(GUARD_WORDS), set()),
]


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return Comparison(rows=tuple(explore(UNEQUAL, guards_named(names)) for names, _ in REMAINS))


@pytest.mark.parametrize(("names", "remaining"), REMAINS)
def test_each_guard_leaves_what_it_does_not_look_at(
    compared: Comparison, names: tuple[str, ...], remaining: set[Finding]
) -> None:
    row = next(one for one in compared.rows if set(one.guards.names) == set(names))
    assert row.foreign_reads == remaining


def test_the_smallest_sets_that_close_everything(compared: Comparison) -> None:
    assert {frozenset(one.names) for one in compared.smallest_enough} == {
        frozenset({"page-tags"}),
        frozenset({"deferred-release", "bounded-transfer", "checksum"}),
        frozenset({"deferred-release", "bounded-transfer", "door"}),
        frozenset({"deferred-release", "bounded-transfer", "retire"}),
    }


def test_no_page_is_ever_owned_twice(compared: Comparison) -> None:
    assert all(Finding.OWNED_TWICE not in row.findings for row in compared.rows)


def test_a_page_that_is_freed_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def freed_again(here: Here) -> Step:
        move, state = here.releasing(Kind.ANSWER, decode=Decode.ANSWERED)
        return move, state._replace(free=(*state.free, *here.run.pages))

    monkeypatch.setattr(decode_moves, "_answered", freed_again)
    assert Finding.OWNED_TWICE in explore.__wrapped__(INCIDENT, NONE).findings


@pytest.mark.parametrize(
    ("version", "remaining"),
    [
        ("0.5.19", {STUB, LATE, SOURCE}),
        ("0.5.20", {LATE, SOURCE}),
        ("0.5.21", {LATE}),  # transfers are unbounded by default
        ("0.5.23", {LATE}),
    ],
)
def test_what_a_version_leaves_open_by_its_defaults(version: str, remaining: set[Finding]) -> None:
    explored = explore(UNEQUAL, guards_of_version(Version(version)))
    assert explored.foreign_reads == remaining
    assert (Finding.HELD_RESERVATION in explored.findings) is (version != "0.5.19")


@pytest.fixture(scope="module")
def equal() -> Exploration:
    return explore(EQUAL, NONE)


def test_equal_limits_close_the_incident_but_not_the_late_write(equal: Exploration) -> None:
    assert equal.foreign_reads == {LATE, SOURCE}
    assert {Finding.UNWRITTEN, Finding.HELD_RESERVATION}.isdisjoint(equal.findings)


def test_what_both_refuse_is_refused_by_decode_too() -> None:
    """Both legs hold a stub then: no page is read, and the client gets its 400."""
    setup = replace(EQUAL, lengths=(6,), requests=1, has_aborts=False)
    ends = {state.runs[0].decode for state in reached(setup, NONE)}
    assert Decode.REFUSED in ends
    assert Decode.SPOKEN not in ends


def test_a_prompt_in_the_hang_band_waits_for_ever_whatever_the_guards(
    compared: Comparison, equal: Exploration
) -> None:
    for row in (*compared.rows, equal):
        assert Finding.WAITS_FOR_EVER in row.findings


@pytest.mark.parametrize(
    "names", [(), ("door", "checksum"), ("deferred-release", "bounded-transfer"), ("page-tags",)]
)
def test_nobody_waits_for_ever_below_the_hang_band(names: tuple[str, ...]) -> None:
    fitting = tuple(one for one in NARROW.lengths if one + NARROW.reserve <= NARROW.decode_pages)
    assert fitting == NARROW.lengths[:-1]
    explored = explore(replace(NARROW, lengths=fitting), guards_named(names))
    assert Finding.WAITS_FOR_EVER not in explored.findings


def test_a_host_tier_reads_what_was_freed_too_early() -> None:
    tier = replace(NARROW, has_tier=True)
    assert COPY in explore(tier, NONE).foreign_reads
    assert COPY in explore(tier, guards_named(["door", "checksum"])).foreign_reads
    assert not explore(tier, guards_named(["page-tags"])).foreign_reads
    held = guards_named(["door", "deferred-release", "bounded-transfer"])
    assert not explore(tier, held).foreign_reads


def reached(setup: Setup, guards: ProtocolGuards) -> list[State]:
    """Every state, told apart by everything in it: slower, and without any merging."""
    seen = set(setup.starts())
    queue = deque(seen)
    while queue:
        for _, after in moves(queue.popleft(), guards, setup):
            if after not in seen:
                seen.add(after)
                queue.append(after)
    return list(seen)


SMALL = replace(NARROW, lengths=(1, 2))


@pytest.mark.parametrize(
    ("names", "has_tier"),
    [((), True), (("deferred-release", "checksum"), False), (("page-tags",), True)],
)
def test_merging_alike_states_loses_nothing(names: tuple[str, ...], *, has_tier: bool) -> None:
    setup, guards = replace(SMALL, has_tier=has_tier), guards_named(names)
    states = reached(setup, guards)
    found = {
        one for state in states for move, _ in moves(state, guards, setup) for one in move.found
    }
    explored = explore(setup, guards)
    assert explored.states == len({canonical(state) for state in states}) < len(states)
    quiet = {Finding.WAITS_FOR_EVER, Finding.HELD_RESERVATION}
    assert explored.findings - quiet == found


@settings(max_examples=80, deadline=None)
@given(
    draw=st.randoms(),
    has_tier=st.booleans(),
    names=st.sets(st.sampled_from([*GUARD_WORDS])),
)
def test_states_that_are_alike_go_on_alike(
    draw: random.Random, names: set[str], *, has_tier: bool
) -> None:
    """A walk, and the same walk over pages with other numbers."""
    setup, guards = replace(UNEQUAL, has_tier=has_tier), guards_named(sorted(names))
    state = draw.choice(list(setup.starts()))
    for _ in range(20):
        twin = renumbered(state, draw)
        assert canonical(twin) == canonical(state)
        steps = list(moves(state, guards, setup))
        assert images(steps) == images(moves(twin, guards, setup))
        if not steps:
            return
        state = draw.choice(steps)[1]


def images(steps: Iterable[Step]) -> set[object]:
    return {(move, canonical(after)) for move, after in steps}


def renumbered(state: State, draw: random.Random) -> State:
    numbers = list(range(len(state.contents)))
    draw.shuffle(numbers)
    contents = list(state.contents)
    for old, new in enumerate(numbers):
        contents[new] = state.contents[old]
    runs = tuple(
        run._replace(pages=tuple(numbers[page] for page in run.pages)) for run in state.runs
    )
    return State(runs, tuple(contents), tuple(sorted(numbers[page] for page in state.free)))


def test_guards_are_named_as_they_are_typed() -> None:
    assert guards_named(GUARD_WORDS).names == tuple(GUARD_WORDS)
    assert guards_named([]) == NONE
    assert len(list(every_set())) == 2 ** len(GUARD_WORDS)
    with pytest.raises(WrongFigure, match=r"'wall'; there are: door, retire"):
        guards_named(["wall"])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "limits", [NARROW, replace(NARROW, prefill_longest=3, lengths=(1, 2, 3, 4))]
)
def test_more_guards_never_open_what_fewer_close(limits: Setup) -> None:
    rows = compare(limits).rows
    by_names = {frozenset(row.guards.names): row.foreign_reads for row in rows}
    for names, found in by_names.items():
        for more, left in by_names.items():
            assert not names < more or left <= found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("names", "reserve"),
    [
        (("page-tags",), 1),
        (("door", "deferred-release", "bounded-transfer"), 0),
        (("retire", "deferred-release", "bounded-transfer"), 0),
        (("deferred-release", "bounded-transfer", "checksum"), 0),
    ],
)
def test_a_third_request_opens_nothing(names: tuple[str, ...], reserve: int) -> None:
    """Without a reserve, three of them hold pages at once."""
    explored = explore(replace(SMALL, requests=3, reserve=reserve), guards_named(names))
    assert not explored.foreign_reads
    assert Finding.OWNED_TWICE not in explored.findings
