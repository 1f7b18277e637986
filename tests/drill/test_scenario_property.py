"""Over random requests no guarded scenario attends a foreign slot, and each unguarded one can."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from drill.guards import Guard
from drill.scenarios import SCENARIOS
from tests.drill.rehearsal import Rehearsal, prompt_of

SMALL = {
    "september": ("--prefill-pool", "160", "--decode-pool", "320"),
    "late-write": ("--prefill-pool", "1280", "--decode-pool", "320"),
    "page-lifetime": ("--prefill-pool", "320", "--decode-pool", "1280"),
    "salt-ignored": ("--prefill-pool", "640", "--decode-pool", "640"),
    "disk-tier": ("--prefill-pool", "640", "--decode-pool", "640"),
}
GUARDED = [
    ("september", "door"),
    ("september", "retire"),
    ("september", "checksum"),
    ("september", "page-tags"),
    ("late-write", "deferred-release"),
    ("late-write", "page-tags"),
    ("page-lifetime", "deferred-release"),
    ("page-lifetime", "page-tags"),
    ("salt-ignored", "salt"),
    ("salt-ignored", "page-tags"),
    ("disk-tier", "tier-key"),
    ("disk-tier", "page-tags"),
]
MOVES = ("ask", "ask", "send", "leave", "restart", "flush")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing that happens to a cluster, and how long nothing happens after it."""

    move: str
    mark: int
    length: int
    salt: str | None
    pause_s: float


acts = st.lists(
    st.builds(
        Act,
        move=st.sampled_from(MOVES),
        mark=st.integers(0, 2),
        length=st.integers(1, 240),
        salt=st.sampled_from((None, "one", "two")),
        pause_s=st.sampled_from((0.0, 0.05, 0.3, 6.0)),
    ),
    min_size=2,
    max_size=8,
)


def drawn(seed: int) -> list[Act]:
    """Draw acts that favour what is long: most faults need a pool that goes round."""
    dice = random.Random(seed)  # noqa: S311 - a test's dice
    return [
        Act(
            move=dice.choice(MOVES),
            mark=dice.randrange(3),
            length=dice.choice((150, 200, 240)),
            salt=dice.choice((None, "one", "two")),
            pause_s=dice.choice((0.0, 0.05, 0.3)),
        )
        for _ in range(8)
    ]


def start(scenario: str, *arguments: str) -> Rehearsal:
    figures = (*SMALL[scenario], "--context", "256", "--page-size", "16", *arguments)
    return Rehearsal.of(scenario, *figures)


def play(rehearsal: Rehearsal, wanted: list[Act]) -> bool:
    """Play acts; tell whether anything foreign was attended, ever."""
    try:
        return any(_plays(rehearsal, act) for act in wanted)
    finally:
        rehearsal.world.close()


def _plays(rehearsal: Rehearsal, act: Act) -> bool:
    # A checksum compares contents: equal prompts of two requests are one to it.
    has_sums = rehearsal.decode.guards.sums_transfers
    prompt = prompt_of(f"MARK-{len(rehearsal.legs) if has_sums else act.mark}", act.length)
    if act.move == "ask":
        rehearsal.ask(prompt, salt=act.salt, new_tokens=4)
    elif act.move in ("send", "leave"):
        legs = rehearsal.send(prompt, salt=act.salt, new_tokens=4)
        rehearsal.wait(act.pause_s)
        if act.move == "leave":
            rehearsal.leave(legs)
    elif act.move == "flush" and not any(rehearsal.prefill.queue_lengths().values()):
        rehearsal.prefill.prompts.flush()
    elif act.move == "restart":
        rehearsal.prefill.die()
        has_leaked = rehearsal.has_leaked
        rehearsal.start_prefill()
        return has_leaked
    rehearsal.wait(act.pause_s)
    return rehearsal.has_leaked


@pytest.mark.parametrize(("scenario", "guard"), GUARDED)
@settings(max_examples=40, deadline=None)
@given(wanted=acts)
def test_a_guarded_scenario_attends_nothing_foreign(
    scenario: str, guard: str, wanted: list[Act]
) -> None:
    rehearsal = start(scenario, "--guard", guard)
    assert not play(rehearsal, wanted)
    event("an answer" if any(legs.is_answered for legs in rehearsal.legs) else "no answer")


@pytest.mark.parametrize("scenario", sorted(SMALL))
def test_an_unguarded_scenario_attends_something_foreign_for_some_seed(scenario: str) -> None:
    assert any(play(start(scenario), drawn(seed)) for seed in range(100))


@pytest.mark.parametrize(("scenario", "guard"), GUARDED)
def test_the_same_seeds_are_clean_under_the_guard(scenario: str, guard: str) -> None:
    assert not any(play(start(scenario, "--guard", guard), drawn(seed)) for seed in range(25))


@pytest.mark.parametrize(
    ("left_out", "has_leaked"),
    [((), False), (("door",), False), (("retire",), False), (("door", "retire"), True)],
)
def test_a_newer_engine_leaks_again_without_both_of_its_guards(
    left_out: tuple[str, ...], *, has_leaked: bool
) -> None:
    words = [word for name in left_out for word in ("--no-guard", name)]
    rehearsal = start("september", "--engine-version", "0.5.22", *words)
    rehearsal.ask(prompt_of("MARK-1", 100))
    rehearsal.send(prompt_of("MARK-2", 200))
    assert rehearsal.has_leaked is has_leaked


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_all_guards_together_let_every_answer_through(scenario: str) -> None:
    rehearsal = Rehearsal.of(scenario, *(word for one in Guard for word in ("--guard", one)))
    try:
        for mark in ("ALPHA-1", "BRAVO-2", "ALPHA-1"):
            assert mark in rehearsal.ask(prompt_of(mark, 4_000), salt="one").text
        assert not rehearsal.has_leaked
        hits = [legs.decode.cached_tokens > 0 for legs in rehearsal.legs]
        assert hits == [False, False, SCENARIOS[scenario].has_prefix_cache]
    finally:
        rehearsal.world.close()
