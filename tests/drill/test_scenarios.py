"""Every scenario shows its fault by the trigger in its docstring, and not under its guard."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drill.guards import Guard
from drill.options import plan_of, read_options
from drill.scenarios import SCENARIOS
from drill.settings import Role
from tests.drill.rehearsal import Rehearsal, prompt_of

Trigger = Callable[[Rehearsal], Rehearsal]
Start = Callable[..., Rehearsal]

P, Q = prompt_of("ALPHA-1", 4_000), prompt_of("BRAVO-2", 4_000)


def late_write(rehearsal: Rehearsal) -> Rehearsal:
    first = rehearsal.send(P)
    rehearsal.wait(0.2)
    rehearsal.leave(first)
    rehearsal.ask(Q)
    return rehearsal


def test_an_aborted_transfer_lands_in_the_next_owners_pages(rehearse: Start) -> None:
    rehearsal = late_write(rehearse("late-write"))
    second = rehearsal.legs[-1]
    assert second.is_answered
    assert "ALPHA-1" in second.text
    assert "BRAVO-2" not in second.text
    trace = rehearsal.decode.books.traces[-1]
    assert {trace.writers[at] for at in trace.foreign} == {rehearsal.legs[0].decode.serial}


def test_deferred_release_waits_for_the_write(rehearse: Start) -> None:
    rehearsal = late_write(rehearse("late-write", "--guard", "deferred-release"))
    assert rehearsal.legs[-1].is_answered
    assert "BRAVO-2" in rehearsal.legs[-1].text
    assert not rehearsal.has_leaked
    assert rehearsal.decode.pool.used == 0


@pytest.mark.parametrize(
    ("guard", "said"), [("checksum", "KV checksum mismatch"), ("page-tags", "KV page tag mismatch")]
)
def test_a_check_ends_the_next_owner_with_an_error(rehearse: Start, guard: str, said: str) -> None:
    rehearsal = late_write(rehearse("late-write", "--guard", guard))
    assert said in rehearsal.legs[-1].error
    assert not rehearsal.has_leaked


def test_a_newer_engine_holds_the_pages_of_itself(rehearse: Start) -> None:
    assert not late_write(rehearse("late-write", "--engine-version", "0.5.21")).has_leaked


def test_a_newer_engine_without_the_guard_leaks_all_the_same(rehearse: Start) -> None:
    newer = ("--engine-version", "0.5.21", "--no-guard", "deferred-release")
    assert late_write(rehearse("late-write", *newer)).has_leaked


def test_a_guard_can_be_switched_while_the_cluster_runs(rehearse: Start) -> None:
    rehearsal = rehearse("late-write")
    rehearsal.switch(Guard.PAGE_TAGS, on=True)
    assert not late_write(rehearsal).has_leaked
    rehearsal.switch(Guard.PAGE_TAGS, on=False)
    assert late_write(rehearsal).has_leaked


def host_copy(rehearsal: Rehearsal) -> Rehearsal:
    for prompt in (P, Q, P):
        rehearsal.ask(prompt)
        rehearsal.wait(0.2)
    return rehearsal


def at_once(rehearsal: Rehearsal) -> Rehearsal:
    rehearsal.send(P)
    rehearsal.send(Q)
    rehearsal.wait(2)
    return rehearsal


def test_a_copy_to_host_memory_reads_the_next_owners_pages(rehearse: Start) -> None:
    rehearsal = host_copy(rehearse("page-lifetime"))
    last = rehearsal.legs[-1]
    assert last.is_answered
    assert "BRAVO-2" in last.text
    assert last.decode.cached["host"] > 0
    assert rehearsal.decode.books.traces[-1].foreign
    assert not any(trace.foreign for trace in list(rehearsal.decode.books.traces)[:-1])


def test_a_transfer_reads_the_next_owners_pages(rehearse: Start) -> None:
    rehearsal = at_once(rehearse("page-lifetime"))
    first, second = rehearsal.legs
    assert first.is_answered
    assert second.is_answered
    assert "BRAVO-2" in first.text
    assert "BRAVO-2" in second.text


@pytest.mark.parametrize("trigger", [host_copy, at_once])
@pytest.mark.parametrize("guard", ["deferred-release", "page-tags"])
def test_guarded_pages_outlive_their_readers(rehearse: Start, trigger: Trigger, guard: str) -> None:
    rehearsal = trigger(rehearse("page-lifetime", "--guard", guard))
    assert not rehearsal.has_leaked
    if guard == "deferred-release":
        assert all(legs.is_answered for legs in rehearsal.legs)
        assert "ALPHA-1" in rehearsal.legs[0].text
    if trigger is host_copy:
        assert "ALPHA-1" in rehearsal.legs[-1].text
        assert "ALPHA-1" in host_copy(rehearsal).legs[-1].text


def test_a_tag_is_looked_at_where_a_transfer_reads(rehearse: Start) -> None:
    first, second = at_once(rehearse("page-lifetime", "--guard", "page-tags")).legs
    assert "Decode transfer failed" in first.error
    assert "KV page tag mismatch" in first.error
    assert second.is_answered


@pytest.mark.parametrize(
    ("more", "is_over"), [((), True), (("--guard", "deferred-release"), False)]
)
def test_prefill_says_that_a_transfer_is_over_before_it_is(
    rehearse: Start, more: tuple[str, ...], *, is_over: bool
) -> None:
    legs = rehearse("page-lifetime", *more).send(P)
    assert not legs.decode.finished()
    assert legs.prefill.finished() is is_over


def test_a_checksum_sees_the_transfer_and_not_the_copy(rehearse: Start) -> None:
    transfer = at_once(rehearse("page-lifetime", "--guard", "checksum"))
    assert "KV checksum mismatch" in transfer.legs[0].error
    assert host_copy(rehearse("page-lifetime", "--guard", "checksum")).has_leaked


def two_salts(rehearsal: Rehearsal) -> Rehearsal:
    for salt in ("one", "one", "two"):
        rehearsal.ask(P, salt=salt)
    return rehearsal


@pytest.mark.parametrize("scenario", ["salt-ignored", "disk-tier"])
def test_a_cache_without_the_salt_shares_across_it(rehearse: Start, scenario: str) -> None:
    rehearsal = two_salts(rehearse(scenario))
    assert [legs.decode.cached_tokens for legs in rehearsal.legs] == [0, 3_968, 3_968]
    assert all("ALPHA-1" in legs.text for legs in rehearsal.legs)
    assert [bool(one.foreign) for one in rehearsal.decode.books.traces] == [False, False, True]


@pytest.mark.parametrize(
    ("scenario", "guard"), [("salt-ignored", "salt"), ("disk-tier", "tier-key")]
)
def test_a_salted_key_hits_for_its_own_salt_only(
    rehearse: Start, scenario: str, guard: str
) -> None:
    rehearsal = two_salts(rehearse(scenario, "--guard", guard))
    assert [legs.decode.cached_tokens for legs in rehearsal.legs] == [0, 3_968, 0]
    assert not rehearsal.has_leaked


@pytest.mark.parametrize("scenario", ["salt-ignored", "disk-tier"])
def test_page_tags_end_a_hit_across_salts(rehearse: Start, scenario: str) -> None:
    rehearsal = two_salts(rehearse(scenario, "--guard", "page-tags"))
    assert [legs.is_answered for legs in rehearsal.legs] == [True, True, False]
    assert "KV page tag mismatch" in rehearsal.legs[-1].error
    assert not rehearsal.has_leaked


def test_a_hit_saves_the_time_of_the_forward_pass(rehearse: Start) -> None:
    rehearsal = rehearse("salt-ignored", "--prefill-speed", "1000")
    took = []
    for _ in range(2):
        started = rehearsal.now
        rehearsal.ask(P)
        took.append(rehearsal.now - started)
    assert took == [pytest.approx(4.0, abs=0.06), pytest.approx(0.05, abs=0.06)]


def restarted(rehearsal: Rehearsal) -> Rehearsal:
    rehearsal.ask(P)
    rehearsal.prefill.die()
    rehearsal.start_prefill()
    rehearsal.ask(Q)
    rehearsal.ask(P)
    return rehearsal


def test_an_old_index_names_places_that_were_written_anew(rehearse: Start) -> None:
    rehearsal = restarted(rehearse("disk-tier"))
    assert rehearsal.legs[-1].is_answered
    assert "BRAVO-2" in rehearsal.legs[-1].text
    assert rehearsal.decode.books.traces[-1].foreign


def test_a_whole_key_reads_only_what_was_written_under_it(rehearse: Start) -> None:
    rehearsal = restarted(rehearse("disk-tier", "--guard", "tier-key"))
    assert "ALPHA-1" in rehearsal.legs[-1].text
    assert not rehearsal.has_leaked


def test_a_whole_key_finds_what_an_earlier_process_wrote(rehearse: Start) -> None:
    rehearsal = rehearse("disk-tier", "--guard", "tier-key")
    rehearsal.ask(P)
    rehearsal.start_prefill()
    last = rehearsal.ask(P)
    assert last.decode.cached["storage"] == 3_968
    assert not rehearsal.has_leaked


def grown(rehearsal: Rehearsal) -> Rehearsal:
    """Let a request grow, while it answers, into the pages of an aborted transfer."""
    first = rehearsal.send(prompt_of("ALPHA-1", 100))
    rehearsal.wait(0.2)
    rehearsal.leave(first)
    rehearsal.ask(prompt_of("BRAVO-2", 40), new_tokens=120)
    return rehearsal


SMALL = ("--prefill-pool", "192", "--decode-pool", "192", "--context", "256", "--page-size", "16")


@pytest.mark.parametrize("more", [(), ("--guard", "checksum")])
def test_a_late_write_reaches_a_request_that_runs(rehearse: Start, more: tuple[str, ...]) -> None:
    rehearsal = grown(rehearse("late-write", *SMALL, *more))
    assert rehearsal.legs[-1].is_answered
    at_first, later = list(rehearsal.decode.books.traces)[-2:]
    assert not at_first.foreign
    assert min(later.foreign) >= 40
    assert {later.writers[at] for at in later.foreign} == {rehearsal.legs[0].decode.serial}


@pytest.mark.parametrize("guard", ["deferred-release", "page-tags"])
def test_a_running_request_is_guarded_too(rehearse: Start, guard: str) -> None:
    rehearsal = grown(rehearse("late-write", *SMALL, "--guard", guard))
    assert not rehearsal.has_leaked
    assert rehearsal.legs[-1].is_answered is (guard == "deferred-release")


def resized(rehearsal: Rehearsal) -> Rehearsal:
    """Write pages of half the size that the next process has."""
    for prompt in (P, Q):
        rehearsal.ask(prompt)
    figures = rehearsal.figures[Role.PREFILL]
    rehearsal.figures[Role.PREFILL] = figures.with_figures(page_size=64)
    rehearsal.prefill.die()
    rehearsal.start_prefill()
    rehearsal.ask(P)
    return rehearsal


def test_a_key_without_the_layout_reads_across_old_places(rehearse: Start) -> None:
    rehearsal = resized(rehearse("disk-tier", "--page-size", "32"))
    last = rehearsal.legs[-1]
    assert last.is_answered
    assert last.decode.cached["storage"] > 0
    assert rehearsal.decode.books.traces[-1].foreign


def test_a_key_with_the_layout_does_not(rehearse: Start) -> None:
    rehearsal = resized(rehearse("disk-tier", "--page-size", "32", "--guard", "tier-key"))
    assert rehearsal.legs[-1].decode.cached_tokens == 0
    assert not rehearsal.has_leaked


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_scenario_starts_at_full_scale_too(scenario: str) -> None:
    for more in ([], ["--full-scale"]):
        plan = plan_of(read_options(["--scenario", scenario, *more]), environ={})
        nodes = {role: [one for one in plan.nodes if one.role is role] for role in Role}
        assert len(nodes[Role.PREFILL]) == len(nodes[Role.DECODE]) == 1 + (scenario == "slow-node")


@pytest.mark.parametrize("scenario", ["september", "healthy", "equal-pools"])
def test_the_first_presets_have_none_of_it(scenario: str) -> None:
    plan = plan_of(read_options(["--scenario", scenario]), environ={})
    assert not plan.switches
    assert not plan.has_gateway
    for one in plan.nodes:
        assert not any((one.has_prefix_cache, one.has_tiers, one.reports_cached))
        assert (one.source_s, one.transfer_s, one.offload_s, one.prefill_speed) == (0, 0, 0, 0)
