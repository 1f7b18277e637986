"""The plan abort: who leaves half-way changes nobody's answer, by hand-made rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from common.registry import load_plugins
from common.verdicts import Verdict
from probes.canary.contract import PLANS
from probes.canary.departure import Episode
from probes.canary.oracle_reference import judge_reference
from probes.canary.rounds import Duty, Echo, Outcome, Part, Row, Sending, Stay, cost_of
from probes.judgement import Check, Kind
from tests.probes.made_rows import A, B, answered, counters, digest, evidence, scene, seen

load_plugins("probes.plans")
PLAN = PLANS.get("abort")
SENDINGS = PLAN.sendings(scene())
LEAVERS = [one for one in SENDINGS if one.stay is Stay.LEAVES]
#: All that were answered are counted as finished by both engines, and each leaver as aborted.
SOUND = counters(finished=len(SENDINGS), aborted=len(LEAVERS))


def checks(rows: list[Row], *episodes: Episode) -> dict[str, Check]:
    found = PLAN.judge(evidence("abort", rows, episodes=episodes or (SOUND,)))
    return {one.check.removeprefix("abort."): one for one in found}


def changed(rows: list[Row], pick: Callable[[Row], bool], **over: object) -> list[Row]:
    """Answer the rows with the first that is picked changed."""
    at = next(number for number, one in enumerate(rows) if pick(one))
    return [*rows[:at], replace(rows[at], **over), *rows[at + 1 :]]  # type: ignore[arg-type]


def test_clients_leave_at_four_moments_while_bystanders_and_the_last_retry_run() -> None:
    shares = [one.leave_share for one in LEAVERS]
    assert shares == sorted(shares)
    assert shares[0] <= 0.25 < shares[1] <= 0.5 < shares[2] < 1 < shares[3]
    for leaver in LEAVERS:
        wave = [one for one in SENDINGS if one.wave == leaver.wave]
        assert sum(one.is_bystander for one in wave) >= 2
        twins = [one for one in wave if one.script == leaver.script and one.stay is Stay.WHOLE]
        assert len(twins) == 1
        assert leaver.form.is_streamed is (leaver.leave_share > 1)
        later = [one for one in SENDINGS if one.wave == leaver.wave + 1]
        assert any(one.script == leaver.script and one.stay is Stay.WHOLE for one in later)


def test_a_cancelled_prompt_is_new_when_its_client_leaves_and_its_like_was_timed_just_before() -> (
    None
):
    for leaver in LEAVERS:
        at = SENDINGS.index(leaver)
        assert all(one.script != leaver.script for one in SENDINGS[:at])
        timed = [one for one in SENDINGS[:at] if one.length == leaver.length]
        assert (timed[-1].part, timed[-1].max_new_tokens) == (Part.CONTROL, 1)


def test_every_prompt_that_is_compared_is_asked_alone_twice() -> None:
    again = {one.script for one in SENDINGS if one.part is Part.ASK and one.duty is Duty.ANSWER}
    for script in again:
        alone = [one for one in SENDINGS if one.script == script and one.part is Part.CONTROL]
        assert [one.wave for one in alone] == [0, 0]


@pytest.mark.parametrize("allowance", [0, 30_000, 10_000_000])
@pytest.mark.parametrize("pool", [2_048, 20_480, 700_032])
def test_the_cost_follows_the_allowance_down_to_the_shortest_prompts(
    pool: int, allowance: int
) -> None:
    figures = scene(pool=pool, context=1_048_576, allowance=allowance)
    sendings = PLAN.sendings(figures)
    # 256 tokens are the shortest prompt that tells something, and 192 the longest answer.
    assert cost_of(sendings).tokens <= max(allowance, len(sendings) * (256 + 192))
    assert all(one.length <= figures.longest_fitting(one.max_new_tokens) for one in sendings)
    assert all(one.max_new_tokens <= figures.room_at(one.length) for one in sendings)
    for wave in {one.wave for one in sendings} - {0}:
        together = [one for one in sendings if one.wave == wave]
        is_sent = min(one.length for one in together) > 1
        assert not is_sent or sum(one.length + one.max_new_tokens + 512 for one in together) <= pool


def test_a_sound_round_passes() -> None:
    found = checks(answered(SENDINGS))
    assert {one.verdict for one in found.values()} == {Verdict.PASS}, found
    assert "cannot exclude any leak rate" in found["foreign_marker"].reason


def test_a_wrong_bystander_is_corruption_like_any_probe() -> None:
    rows = changed(
        answered(SENDINGS),
        lambda row: row.is_bystander and row.wave == 2,
        said_digest=digest("garbage"),
        opening_digest=digest("gar"),
        echo=Echo.MISSING,
    )
    found = checks(rows)
    assert (found["reference"].verdict, found["reference"].kind) == (Verdict.FAIL, Kind.CORRUPTION)
    assert "1 bystander among them" in found["reference"].reason
    assert found["own_nonce"].verdict is Verdict.FAIL


def test_a_client_that_left_and_an_answer_of_another_length_differ_from_nothing() -> None:
    rows = answered(SENDINGS)
    assert judge_reference(evidence("abort", rows)).verdict is Verdict.PASS
    longer = [
        replace(
            row,
            outcome=Outcome.ANSWERED,
            max_new_tokens=row.max_new_tokens + 1,
            said_digest=digest("as it is, and one token more"),
        )
        if row.outcome is Outcome.LEFT
        else row
        for row in rows
    ]
    assert judge_reference(evidence("abort", longer)).verdict is Verdict.INCONCLUSIVE


def test_a_wrong_retry_is_corruption() -> None:
    rows = changed(
        answered(SENDINGS),
        lambda row: row.purpose.startswith("retry"),
        said_digest=digest("garbage"),
        opening_digest=digest("gar"),
        echo=Echo.MISSING,
    )
    assert checks(rows)["reference"].verdict is Verdict.FAIL


def test_a_cancelled_prompt_in_a_bystanders_answer_is_a_leak_that_names_it() -> None:
    rows = changed(
        answered(SENDINGS), lambda row: row.is_bystander, sightings=(seen(A, "cancelled-1"),)
    )
    leak = checks(rows)["foreign_marker"]
    assert (leak.verdict, leak.kind, leak.figures["tenant"]) == (Verdict.FAIL, Kind.LEAK, A)
    assert leak.figures["request"] == "cancelled-1"


def test_answers_shifted_by_one_after_a_cancel_blame_the_connection() -> None:
    rows = answered(SENDINGS)
    at = next(number for number, one in enumerate(rows) if one.outcome is Outcome.LEFT)
    for number in (at + 1, at + 2):
        before = rows[number - 1]
        shown = seen(before.tenant, before.request)
        rows[number] = replace(rows[number], sightings=(shown,))
    check = checks(rows)["foreign_marker"]
    assert check.verdict is Verdict.FAIL
    assert "connection pool" in check.reason


@pytest.mark.parametrize("oracle", ["foreign_marker", "own_nonce", "reference", "answered"])
def test_nothing_passes_where_a_client_did_not_leave_in_time(oracle: str) -> None:
    rows = changed(
        answered(SENDINGS),
        lambda row: row.outcome is Outcome.LEFT,
        outcome=Outcome.ANSWERED,
        said_digest=digest("a longer answer than its retry's"),
        echo=Echo.WHOLE,
    )
    check = checks(rows)[oracle]
    assert check.verdict is Verdict.NOT_EXERCISED
    assert "before its client left" in check.reason


def test_an_answer_that_was_over_before_its_client_left_it_speaking_is_no_harm() -> None:
    rows = answered(SENDINGS)
    last = max(number for number, one in enumerate(rows) if one.outcome is Outcome.LEFT)
    rows[last] = replace(rows[last], outcome=Outcome.ANSWERED, echo=Echo.WHOLE)
    assert {one.verdict for one in checks(rows).values()} == {Verdict.PASS}


def test_nothing_passes_where_no_engine_saw_what_was_abandoned() -> None:
    served = sum(row.is_served for row in answered(SENDINGS))
    unseen = counters(finished=served, aborted=0)
    found = checks(answered(SENDINGS), unseen)
    assert {one.verdict for one in found.values()} == {Verdict.NOT_EXERCISED}
    # An engine that noticed too late counts it as finished like any other.
    late = counters(finished=served + len(LEAVERS), aborted=0)
    assert checks(answered(SENDINGS), late)["reference"].verdict is Verdict.PASS


def test_counters_that_cannot_be_read_leave_it_open() -> None:
    blind = counters(finished=0, aborted=0, is_readable=False)
    found = checks(answered(SENDINGS), blind)
    assert {one.verdict for one in found.values()} == {Verdict.INCONCLUSIVE}
    assert "--enable-metrics" in found["reference"].reason


def test_a_bystander_that_is_not_answered_is_an_outage_and_no_pass_elsewhere() -> None:
    rows = changed(
        answered(SENDINGS),
        lambda row: row.is_bystander and row.wave > 0,
        outcome=Outcome.NO_ANSWER,
        reason="nothing came back",
        echo=Echo.NOT_LOOKED_FOR,
    )
    found = checks(rows)
    assert (found["answered"].verdict, found["answered"].kind) == (Verdict.FAIL, Kind.AVAILABILITY)
    assert {one.verdict for name, one in found.items() if name != "answered"} == {
        Verdict.INCONCLUSIVE
    }


def test_waves_that_were_not_sent_are_not_exercised() -> None:
    def unsent(row: Row) -> Row:
        if not row.wave:
            return row
        return replace(row, outcome=Outcome.NOT_EXERCISED, reason="not out of rotation")

    found = checks([unsent(row) for row in answered(SENDINGS)])
    assert {one.verdict for one in found.values()} == {Verdict.NOT_EXERCISED}


def test_one_tenant_alone_in_the_waves_shows_no_border() -> None:
    rows = [replace(row, tenant=B) for row in answered(SENDINGS)]
    assert checks(rows)["foreign_marker"].verdict is Verdict.NOT_EXERCISED


def test_a_round_that_was_not_sent_has_the_same_checks() -> None:
    found = PLAN.not_exercised("router", "no grant")
    assert [one.check for one in found] == [f"abort.{oracle}" for oracle in PLAN.oracles]
    judged = PLAN.judge(evidence("abort", ()))
    assert [(one.check, one.kind) for one in judged] == [(one.check, one.kind) for one in found]
    assert Verdict.PASS not in {one.verdict for one in judged}


def test_senders_of_a_script_stay_the_same() -> None:
    senders: dict[str, set[bool]] = {}
    for one in SENDINGS:
        senders.setdefault(one.script, set()).add(one.is_by_filler)
    assert all(len(found) == 1 for script, found in senders.items() if script), senders
    assert isinstance(SENDINGS[0], Sending)
