"""The plan concurrency: among others each prompt is answered as alone, by hand-made rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.registry import load_plugins
from common.verdicts import Verdict
from probes.canary.contract import PLANS
from probes.canary.oracle_order import FALSE_ALARM, Tally
from probes.canary.rounds import Echo, Part, Row, Sending, cost_of
from probes.judgement import Check, Kind
from tests.probes.made_rows import A, B, answered, digest, evidence, scene, seen

load_plugins("probes.plans")
PLAN = PLANS.get("concurrency")
SENDINGS = PLAN.sendings(scene())
FIRST_TURN = min(one.wave for one in SENDINGS if one.wave and one.script.startswith("turn"))
Times = Callable[[Row], float]


def checks(rows: Sequence[Row], **over: object) -> dict[str, Check]:
    found = PLAN.judge(evidence("concurrency", rows, **over))
    return {one.check.removeprefix("concurrency."): one for one in found}


def timed(rows: list[Row], times: Times) -> list[Row]:
    return [replace(row, first_token_s=times(row)) for row in rows]


def no_order(row: Row) -> float:
    """One's own cached prompt is served first; of the others now one, now the other."""
    if row.purpose.endswith("own"):
        return 0.01
    is_even = row.wave % 2 == 0
    return 0.1 if row.purpose.endswith("other") is is_even else 0.2


def is_pressed(one: Sending) -> bool:
    return one.script.startswith("pressed")


def sound() -> list[Row]:
    return timed(answered(SENDINGS), no_order)


def with_row(rows: list[Row], pick: Callable[[Row], bool], **over: object) -> list[Row]:
    at = next(number for number, one in enumerate(rows) if pick(one))
    return [*rows[:at], replace(rows[at], **over), *rows[at + 1 :]]  # type: ignore[arg-type]


def test_prompts_of_both_tenants_are_under_way_together_and_equally_long() -> None:
    waves = {one.wave for one in SENDINGS if one.part is Part.ASK and not is_pressed(one)}
    assert len(waves) >= 3
    for wave in waves:
        together = [one for one in SENDINGS if one.wave == wave]
        assert {one.is_by_filler for one in together} == {True, False}
        assert len({one.script for one in together}) >= 6
        assert len({one.length for one in together}) == 1
        assert all(one.form.is_streamed for one in together)


def test_both_tenants_share_beginnings_of_one_page_and_of_half() -> None:
    stems: dict[tuple[str, int], set[bool]] = {}
    for one in SENDINGS:
        if one.stem:
            stems.setdefault((one.stem, one.stem_tokens), set()).add(one.is_by_filler)
    assert {tokens for _, tokens in stems} >= {64}
    assert all(found == {True, False} for found in stems.values())
    longest = max(tokens for _, tokens in stems)
    assert longest % 64 == 0
    assert longest == SENDINGS[-1].length // 2 // 64 * 64


def test_two_prompts_need_each_others_pages_where_they_can_be_paid() -> None:
    pressed = [one for one in SENDINGS if is_pressed(one) and one.part is Part.ASK]
    for wave in {one.wave for one in pressed}:
        together = [one for one in pressed if one.wave == wave]
        assert {one.is_by_filler for one in together} == {True, False}
        assert sum(one.length for one in together) > scene().pool
        assert all(one.length <= scene().longest_fitting(one.max_new_tokens) for one in together)
    poor = PLAN.sendings(scene(allowance=20_000))
    assert not any(is_pressed(one) for one in poor)
    assert any(one.wave for one in poor)


def test_each_prompt_that_is_compared_asks_for_the_codes_of_several_pages() -> None:
    compared = [one for one in SENDINGS if one.part is Part.ASK and "beginning" not in one.script]
    assert min(one.codes for one in compared) > 1
    early = [one for one in SENDINGS if one.part is Part.ASK and one.codes == 0]
    assert {one.is_by_filler for one in early} == {True, False}
    # A line of 25 characters for each code, and room to go on.
    assert all(one.max_new_tokens > 25 * one.codes for one in compared)


def test_every_prompt_is_alone_twice_before_it_is_among_others() -> None:
    for script in {one.script for one in SENDINGS if one.part is Part.ASK}:
        parts = [one.part for one in SENDINGS if one.script == script]
        if script.startswith("pressed"):
            # What a cache knows already would need no pages of anybody.
            parts.reverse()
        assert parts[:2] == [Part.CONTROL, Part.CONTROL]
        assert set(parts[2:]) == {Part.ASK}


def test_a_seed_orders_the_waves() -> None:
    other = PLAN.sendings(scene(seed=5))
    assert other != SENDINGS
    assert other == PLAN.sendings(scene(seed=5))
    assert sorted(map(repr, other)) == sorted(map(repr, SENDINGS))


@pytest.mark.parametrize("allowance", [0, 20_000, 33_000, 10_000_000])
@pytest.mark.parametrize("pool", [8_192, 700_032])
def test_the_cost_is_bounded(pool: int, allowance: int) -> None:
    figures = scene(pool=pool, context=1_048_576, allowance=allowance)
    sendings = PLAN.sendings(figures)
    # 256 tokens are the shortest prompt that tells something, and 192 the longest answer.
    assert cost_of(sendings).tokens <= max(allowance, len(sendings) * (256 + 192))
    shared = [one for one in sendings if not is_pressed(one)]
    for wave in {one.wave for one in shared} - {0}:
        together = [one for one in shared if one.wave == wave]
        assert sum(one.length + one.max_new_tokens + 512 for one in together) <= pool


def test_a_sound_round_passes() -> None:
    found = checks(sound())
    assert {one.verdict for one in found.values()} == {Verdict.PASS}, found
    assert [name for name, one in found.items() if not one.required] == ["order"]


def test_another_tenants_marker_is_a_leak() -> None:
    rows = with_row(sound(), lambda row: row.wave == 2, sightings=(seen("tenant-x", "r1"),))
    leak = checks(rows)["foreign_marker"]
    assert (leak.verdict, leak.kind, leak.figures["tenant"]) == (
        Verdict.FAIL,
        Kind.LEAK,
        "tenant-x",
    )


def test_a_neighbours_first_token_is_corruption_though_all_else_is_right() -> None:
    rows = sound()
    alone = {row.script: row for row in rows if row.part is Part.CONTROL and row.script}
    neighbour = alone["apart-filler"]
    rows = with_row(
        rows,
        lambda row: row.wave == 1 and row.script == "apart-asker",
        opening_digest=neighbour.opening_digest,
    )
    check = checks(rows)["first_token"]
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.CORRUPTION)
    assert "another prompt's answer" in check.reason
    compared = sum(row.part is Part.ASK for row in rows)
    assert check.figures["rate"] == pytest.approx(1 / compared)


def test_another_first_token_without_the_own_code_is_corruption() -> None:
    rows = with_row(
        sound(), lambda row: row.wave == 1, opening_digest=digest("x"), echo=Echo.MISSING
    )
    assert checks(rows)["first_token"].verdict is Verdict.FAIL


def test_another_first_token_before_the_right_code_may_be_a_tie() -> None:
    rows = with_row(sound(), lambda row: row.wave == 1, opening_digest=digest("Sure"))
    check = checks(rows)["first_token"]
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "tie" in check.reason


def test_answers_that_all_begin_alike_cannot_show_an_exchanged_first_token() -> None:
    rows = [replace(row, opening_digest=digest("The")) for row in sound()]
    check = checks(rows)["first_token"]
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "begin alike" in check.reason


def test_a_first_token_that_varies_alone_tells_nothing() -> None:
    rows = [
        replace(row, opening_digest=digest(str(row.position))) if not row.wave else row
        for row in sound()
    ]
    assert checks(rows)["first_token"].verdict is Verdict.INCONCLUSIVE


def test_a_lost_page_is_corruption_though_the_last_code_is_there() -> None:
    for lost in ((3,), (7,), (7, 3), (7, 3, 0)):
        rows = with_row(sound(), lambda row: row.wave == 2, missing_pages=lost)
        check = checks(rows)["page_codes"]
        assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.CORRUPTION)
        assert check.figures["pages"] == sorted(lost)
        assert check.required


@pytest.mark.parametrize("lost", [(0,), (3, 0)])
def test_a_list_that_only_ends_sooner_may_have_gone_another_way(lost: tuple[int, ...]) -> None:
    rows = with_row(sound(), lambda row: row.wave == 2, missing_pages=lost)
    check = checks(rows)["page_codes"]
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "send it again" in check.reason


def test_a_page_that_does_not_come_back_alone_either_is_no_finding() -> None:
    rows = [replace(row, missing_pages=row.asked_pages[:1]) for row in sound()]
    assert checks(rows)["page_codes"].verdict is Verdict.PASS
    mute = [replace(row, missing_pages=row.asked_pages[1:]) for row in sound()]
    check = checks(mute)["page_codes"]
    assert (check.verdict, check.required) == (Verdict.NOT_EXERCISED, False)
    once = [
        replace(row, missing_pages=row.asked_pages[1:])
        if row.part is Part.CONTROL and row.position % 2
        else row
        for row in sound()
    ]
    assert checks(once)["page_codes"].verdict is Verdict.NOT_EXERCISED


def test_a_prompt_is_served_first_because_another_tenant_sent_it() -> None:
    rows = timed(answered(SENDINGS), lambda row: 0.2 if row.purpose.endswith("new") else 0.01)
    check = checks(rows)["order"]
    assert (check.verdict, check.kind) == (Verdict.FAIL, Kind.TIMING)
    assert check.figures["foreign_first"] == check.figures["pairs"] == 14
    assert f"{FALSE_ALARM:g}" in check.reason
    assert not check.required


def test_no_order_is_told_where_not_even_the_own_prompt_comes_first() -> None:
    def by_turns(row: Row) -> float:
        return row.wave % 2 + 0.1 if row.purpose.endswith(("own", "other")) else 0.5

    check = checks(timed(answered(SENDINGS), by_turns))["order"]
    assert check.figures["pairs"] == 14
    assert check.verdict is Verdict.NOT_EXERCISED


def test_an_order_that_chance_hardly_makes_is_neither_told_nor_dismissed() -> None:
    def mostly(row: Row) -> float:
        if row.purpose.endswith("other"):
            return 0.3 if row.wave < FIRST_TURN + 3 else 0.05
        return 0.1 if row.purpose.endswith("new") else 0.01

    check = checks(timed(answered(SENDINGS), mostly))["order"]
    assert check.figures["foreign_first"] == 11
    assert check.verdict is Verdict.INCONCLUSIVE


def test_no_times_are_no_order() -> None:
    assert checks(answered(SENDINGS))["order"].verdict is Verdict.NOT_EXERCISED


def test_without_the_grant_for_it_the_order_is_not_asked_and_says_what_it_takes() -> None:
    poor = PLAN.sendings(scene(allowance=20_000))
    rows = answered(poor)
    assert len(rows) < len(SENDINGS)
    found = checks(timed(rows, no_order))
    assert found["order"].verdict is Verdict.NOT_EXERCISED
    assert "--budget-tokens" in found["order"].reason
    assert found["reference"].verdict is Verdict.PASS


@given(pairs=st.integers(1, 30), first=st.integers(0, 30))
def test_the_sign_test_counts_what_a_fair_coin_would_do(pairs: int, first: int) -> None:
    first = min(first, pairs)
    tail = sum(comb(pairs, hits) for hits in range(first, pairs + 1))
    assert Tally(first=first, pairs=pairs).chance == pytest.approx(tail / 2**pairs)


def test_a_worker_that_answered_nothing_is_no_pass() -> None:
    found = checks(sound(), workers=("p/d", "p/d2"))
    assert found["coverage"].verdict is Verdict.INCONCLUSIVE
    unknown = checks(sound(), workers=())
    assert unknown["coverage"].verdict is Verdict.NOT_EXERCISED
    assert not unknown["coverage"].required


def test_a_model_that_never_repeats_a_code_accuses_no_worker() -> None:
    """Seen on healthy SGLang with random weights: 12 of 12 answers were called unread."""
    rows = [replace(row, echo=Echo.MISSING) for row in sound()]
    coverage = checks(rows)["coverage"]
    assert coverage.verdict is Verdict.INCONCLUSIVE
    assert "tells of the model" in coverage.reason


def test_one_wrong_answer_among_many_is_corruption() -> None:
    rows = with_row(
        sound(),
        lambda row: row.wave == 3 and row.tenant == A,
        said_digest=digest("garbage"),
        opening_digest=digest("gar"),
        echo=Echo.MISSING,
    )
    found = checks(rows)
    failed = {name for name, one in found.items() if one.verdict is Verdict.FAIL}
    assert failed == {"own_nonce", "first_token", "reference", "coverage"}


def test_one_tenant_alone_shows_no_border() -> None:
    rows = [replace(row, tenant=B) for row in sound()]
    assert checks(rows)["foreign_marker"].verdict is Verdict.NOT_EXERCISED


def test_a_round_that_was_not_sent_has_the_same_checks() -> None:
    found = PLAN.not_exercised("router", "no grant")
    assert [one.check for one in found] == [f"concurrency.{name}" for name in PLAN.oracles]
    judged = PLAN.judge(evidence("concurrency", ()))
    assert [(one.check, one.kind) for one in judged] == [(one.check, one.kind) for one in found]
    assert Verdict.PASS not in {one.verdict for one in judged}


def mute() -> list[Row]:
    """Answer a sound round of a model that repeats nothing, and answers each prompt in its way."""
    return [replace(row, echo=Echo.MISSING, echo_offset=None) for row in sound()]


def test_one_tie_of_a_model_that_repeats_nothing_is_no_corruption_and_several_are() -> None:
    asks = [row for row in mute() if row.wave and row.part is Part.ASK]
    others = {row.opening_digest for row in asks}
    for count, verdict in ((1, Verdict.INCONCLUSIVE), (3, Verdict.FAIL)):
        torn = {row.position for row in asks[:count]}
        rows = [
            replace(row, opening_digest=(others - {row.opening_digest}).pop(), said_digest="x" * 64)
            if row.position in torn
            else row
            for row in mute()
        ]
        found = checks(rows)
        assert found["reference"].verdict is verdict
        assert found["first_token"].verdict is Verdict.INCONCLUSIVE
    assert checks(mute())["reference"].verdict is Verdict.PASS
    assert checks(mute())["own_nonce"].verdict is Verdict.INCONCLUSIVE
