"""Runs one canary round: reads, asks leave, sends, reads again, judges; a suspicion is replayed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from common.clock import now
from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.contract import FleetError
from probes.canary.budget import object_to_cost
from probes.canary.catalogue import Catalogue
from probes.canary.contract import PLANS, CanaryPlan, Evidence, Observer, RoundOrder, Silent
from probes.canary.conversation import Conversation
from probes.canary.departing import Watch, around
from probes.canary.filling import Filling, learn_filling
from probes.canary.leave import Leave, NotSent, ask_leave
from probes.canary.prompts import SEPARATOR, PromptWriter, UnusableTokenizer, learn_vocabulary
from probes.canary.results import RoundResult
from probes.canary.rounds import Cost, Sending, Stay, Way
from probes.canary.scripting import Scripts
from probes.canary.settling import settle
from probes.canary.spending import spent_on
from probes.canary.survey import Survey


async def run_round(order: RoundOrder, observer: Observer | None = None) -> RoundResult:
    """Run one round and answer what it showed; a round that may not be sent says why.

    Errors: UnknownKey where no plan has this name; whatever the observer raises.
    """
    load_plugins("probes.plans")
    load_plugins("probes.gates")
    plan = PLANS.get(order.plan)
    started_at = now()
    before = await order.surveyor.survey()
    try:
        leave = ask_leave(order, plan, before)
        conversation = await _prepare(order, leave, observer or Silent())
    except NotSent as refusal:
        return _refused(order, plan, before, started_at=started_at, refusal=refusal)
    await conversation.announce(leave.estimate)
    await conversation.run(leave.sendings)
    await _replay(order, leave, conversation)
    await conversation.finish()
    after = await order.surveyor.survey()
    rows = tuple(conversation.rows)
    episodes = conversation.episodes or around(
        leave.sendings, target=order.target, before=before, after=after
    )
    evidence = Evidence(
        plan=order.plan,
        scene=leave.scene,
        rows=rows,
        episodes=episodes,
        workers=leave.workers,
        is_same_key=order.is_same_key,
    )
    return RoundResult(
        plan=order.plan,
        way=order.way,
        target=order.target,
        seed=order.seed,
        checks=settle(
            order,
            plan.judge(evidence),
            before,
            after,
            is_of_router=Way.PAIR not in plan.ways,
        ),
        started_at=started_at,
        ended_at=now(),
        before=before,
        after=after,
        rows=rows,
        episodes=episodes,
        scene=leave.scene,
        workers=leave.workers,
        estimate=leave.estimate,
        spent=spent_on(rows),
        is_same_key=order.is_same_key,
        is_cordoned=leave.is_cordoned,
        acceptance=leave.acceptance,
    )


async def _prepare(order: RoundOrder, leave: Leave, observer: Observer) -> Conversation:
    catalogue = Catalogue.of(order.secret)
    page_size = leave.scene.page_size
    try:
        vocabulary = await learn_vocabulary(order.tokenize)
        filling = await learn_filling(
            order.tokenize,
            Filling(word_index=catalogue.words, fact_index=catalogue.facts),
            page_size=page_size,
            letters=vocabulary.letters,
            separator=SEPARATOR,
        )
    except (FleetError, UnusableTokenizer) as fault:
        reason = f"prompts of exact length could not be made: {fault}"
        raise NotSent(reason, verdict=Verdict.INCONCLUSIVE) from None
    writer = PromptWriter(
        vocabulary=vocabulary, index=catalogue.codes, page_size=page_size, filling=filling
    )
    return Conversation(
        order=order,
        scene=leave.scene,
        scripts=Scripts(order=order, writer=writer),
        index=catalogue,
        observer=observer,
        total=leave.estimate.requests + leave.withheld,
        may_share=leave.may_share,
        watch=_watch_over(order, leave.sendings, observer),
    )


async def _replay(order: RoundOrder, leave: Leave, conversation: Conversation) -> None:
    """Send all of it once more with new markers, where what may be pieces of one was seen.

    Nothing where a whole marker settles it, where the round was stopped, or where the budget does
    not cover it: then the doubt stands.
    """
    rows = conversation.rows
    is_doubted = any(row.suspects for row in rows) and not any(row.foreign for row in rows)
    twice = Cost(tokens=2 * leave.estimate.tokens, requests=2 * leave.estimate.requests)
    objection = object_to_cost(
        twice,
        pool=leave.scene.pool,
        grant_tokens=order.grant_tokens,
        is_cordoned=leave.is_cordoned,
    )
    if not is_doubted or conversation.stop_reason or objection:
        return
    conversation.scripts.begin_again()
    conversation.total += len(leave.sendings)
    await conversation.run([_again(one) for one in leave.sendings])


def _again(sending: Sending) -> Sending:
    """Answer the same request for a second pass; its script is another prompt there."""
    script = f"{sending.script} again" if sending.script else ""
    return replace(sending, script=script, purpose=f"{sending.purpose}, again with new markers")


def _watch_over(
    order: RoundOrder, sendings: tuple[Sending, ...], observer: Observer
) -> Watch | None:
    """Answer what follows the counters, where a client of this round leaves by itself."""
    if all(one.stay is Stay.WHOLE or one.wave for one in sendings):
        return None
    return Watch(surveyor=order.surveyor, is_stopped=observer.is_stopped)


def _refused(
    order: RoundOrder,
    plan: CanaryPlan,
    before: Survey,
    *,
    started_at: datetime,
    refusal: NotSent,
) -> RoundResult:
    checks = plan.not_exercised(order.target, refusal.reason)
    return RoundResult(
        plan=order.plan,
        way=order.way,
        target=order.target,
        seed=order.seed,
        checks=tuple(replace(check, verdict=refusal.verdict) for check in checks),
        started_at=started_at,
        ended_at=now(),
        before=before,
        scene=refusal.scene,
        estimate=refusal.estimate,
        is_same_key=order.is_same_key,
    )
