"""The plan gateway: whose answer a cache in front hands out, by hand-made rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.speech import Api
from probes.canary.contract import PLANS
from probes.canary.prompts import Origin, PromptWriter, learn_vocabulary
from probes.canary.rounds import Row, Way, cost_of
from probes.canary.texts import write_text
from probes.judgement import Check, Kind
from probes.markers import MarkerIndex, MarkerKey
from tests.probes.canary_fakes import tokenize
from tests.probes.made_rows import A, B, answered, digest, evidence, scene

load_plugins("probes.plans")
PLAN = PLANS.get("gateway")
SENDINGS = PLAN.sendings(scene())
#: What a cache knows a body by: its tenant where it keeps them apart, its prompt and temperature.
Key = tuple[str, ...]


def by_body(row: Row) -> Key:
    return row.script, str(row.temperature)


def by_tenant(row: Row) -> Key:
    return row.tenant, *by_body(row)


def by_likeness(row: Row) -> Key:
    return (row.script.partition("-")[0],)


def own_by_likeness(row: Row) -> Key:
    return row.tenant, *by_likeness(row)


def through(
    cache: Callable[[Row], Key] | None, *, varies: bool = True, marks: bool = True, ids: bool = True
) -> list[Row]:
    """Answer the rows of a gateway with such a cache before a model that varies, or does not.

    ``marks`` and ``ids``: whether it tells of a hit by a header, and hands out the stored id.
    """
    stored: dict[Key, Row] = {}
    rows = []
    for row in answered(SENDINGS):
        draw = f"{row.script} {row.position if varies else ''}"
        made = replace(
            row,
            said_digest=digest(draw),
            answer_length=300,
            answer_id=f"chatcmpl-{row.position}",
            cache_marks={"x-cache": "MISS"} if marks and cache else {},
        )
        key = cache(row) if cache and row.script else (str(row.position),)
        kept = stored.setdefault(key, made)
        if kept is not made:
            made = replace(
                made,
                said_digest=kept.said_digest,
                answer_id=kept.answer_id if ids else made.answer_id,
                cache_marks={"x-cache": "HIT"} if marks else {},
            )
        rows.append(made)
    return rows


def check(rows: Sequence[Row]) -> Check:
    (found,) = PLAN.judge(evidence("gateway", rows))
    assert found.check == "gateway.shared_answer"
    return found


def test_it_goes_through_the_router_alone_and_samples() -> None:
    assert tuple(PLAN.ways) == (Way.ROUTER,)
    asked = [one for one in SENDINGS if one.script]
    assert all(one.form.api is Api.CHAT and one.form.temperature > 0 for one in asked)


def test_each_tenant_is_the_first_with_a_body_repeats_it_and_then_the_other_sends_it() -> None:
    for script in ("body-1", "body-2"):
        bodies = [one for one in SENDINGS if one.script == script and one.form.temperature == 1]
        owner = bodies[0].is_by_filler
        assert [one.is_by_filler for one in bodies] == [owner, owner, not owner]
    owners = {one.is_by_filler for one in SENDINGS if one.script in {"body-1", "body-2"}}
    assert owners == {True, False}


def test_the_cost_is_small_whatever_was_granted() -> None:
    assert cost_of(PLAN.sendings(scene(allowance=10**9))).tokens < 10_000


@pytest.mark.parametrize("varies", [True, False])
@pytest.mark.parametrize(("marks", "ids"), [(True, True), (True, False), (False, True)])
def test_a_cache_that_knows_no_tenants_is_a_leak_of_the_gateway(
    *, varies: bool, marks: bool, ids: bool
) -> None:
    found = check(through(by_body, varies=varies, marks=marks, ids=ids))
    assert (found.verdict, found.kind) == (Verdict.FAIL, Kind.LEAK)
    assert found.figures["layer"] == "gateway response cache"
    assert "engines themselves may be sound" in found.reason


def test_a_cache_that_tells_nothing_is_found_by_the_same_sampled_text() -> None:
    found = check(through(by_body, marks=False, ids=False))
    assert found.verdict is Verdict.FAIL
    assert "same long text" in found.reason


def test_another_answer_at_temperature_0_does_not_show_that_a_model_varies() -> None:
    rows = [
        replace(row, temperature=0.0) if row.temperature == 0.9 else row
        for row in through(by_body, marks=False, ids=False)
    ]
    assert check(rows).verdict is Verdict.INCONCLUSIVE


def test_the_same_text_of_a_model_that_never_varies_is_no_finding() -> None:
    found = check(through(by_body, varies=False, marks=False, ids=False))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "nobody knows whether it was stored" in found.reason
    assert check(through(None, varies=False)).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("varies", [True, False])
def test_a_cache_that_keeps_tenants_apart_passes(*, varies: bool) -> None:
    found = check(through(by_tenant, varies=varies))
    assert found.verdict is Verdict.PASS, found.reason
    assert "no cache for similar bodies showed itself" in found.reason


def test_no_cache_is_not_exercised() -> None:
    found = check(through(None))
    assert found.verdict is Verdict.NOT_EXERCISED
    assert "no cache in front was exercised" in found.reason


@pytest.mark.parametrize(("marks", "ids"), [(True, True), (False, False)])
def test_a_cache_of_similar_bodies_that_knows_no_tenants_is_a_leak(
    *, marks: bool, ids: bool
) -> None:
    found = check(through(by_likeness, marks=marks, ids=ids))
    assert found.verdict is Verdict.FAIL


def test_a_similar_body_alone_is_enough() -> None:
    """The exact bodies are kept apart, and only the similar ones are not."""

    def mixed(row: Row) -> Key:
        return by_likeness(row) if row.script.startswith("alike") else by_tenant(row)

    found = check(through(mixed))
    assert found.verdict is Verdict.FAIL
    assert "similar body" in found.reason


def test_a_cache_of_similar_bodies_that_keeps_tenants_apart_passes() -> None:
    found = check(through(own_by_likeness))
    assert found.verdict is Verdict.PASS, found.reason
    assert "within a tenant only" in found.reason


def test_ones_own_second_repeat_is_no_leak_though_another_tenant_knows_the_body_too() -> None:
    rows = through(by_tenant)
    last = next(row for row in reversed(rows) if row.purpose == "another tenant's body")
    again = replace(last, position=len(rows), cache_marks={"x-cache": "HIT"})
    assert check([*rows, again]).verdict is Verdict.PASS


def test_a_hit_on_what_nobody_in_the_round_was_answered_is_open() -> None:
    rows = through(by_tenant)
    at = next(number for number, row in enumerate(rows) if row.script == "alike-3")
    stray = replace(rows[at], cache_marks={"x-cache": "HIT"}, said_digest=digest("somebody"))
    found = check([*rows[:at], stray, *rows[at + 1 :]])
    assert found.verdict is Verdict.INCONCLUSIVE


def test_two_tenants_with_one_key_are_one_to_any_cache() -> None:
    (found,) = PLAN.judge(evidence("gateway", through(by_body), is_same_key=True))
    assert found.verdict is Verdict.NOT_EXERCISED


def test_bodies_that_were_not_served_are_no_pass() -> None:
    assert check([]).verdict is Verdict.NOT_EXERCISED
    (told,) = PLAN.not_exercised("router", "no grant")
    assert (told.check, told.kind, told.verdict) == (
        "gateway.shared_answer",
        Kind.LEAK,
        Verdict.NOT_EXERCISED,
    )
    one_tenant = [replace(row, tenant=A) for row in through(by_body)]
    assert check(one_tenant).verdict is Verdict.NOT_EXERCISED
    assert {row.tenant for row in through(by_body)} == {A, B}


@pytest.mark.parametrize("length", [200, 333, 512])
async def test_similar_texts_differ_in_their_code_and_nowhere_else(length: int) -> None:
    index = MarkerIndex(MarkerKey(b"a secret"))
    vocabulary = await learn_vocabulary(tokenize)
    writer = PromptWriter(vocabulary=vocabulary, index=index, page_size=64)
    texts = []
    for request in (1, 2, 3):
        origin = Origin(tenant=1, request=request)
        prompt = await write_text(writer, tokenize, origin, length=length, is_plain=True)
        assert len(prompt.text) == len(prompt.token_ids) == length
        (marker,) = {hit.marker for hit in index.search(prompt.text)}
        assert marker.request == request
        texts.append(prompt.text.replace(prompt.nonce, "CODE"))
    assert len(set(texts)) == 1
