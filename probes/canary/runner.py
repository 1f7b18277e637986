"""Runs one canary round: reads, asks leave, sends one request at a time, reads again, judges."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime

from common.clock import now
from common.registry import load_plugins
from common.verdicts import Verdict
from fleet.contract import FleetError
from probes.canary.contract import PLANS, CanaryPlan, Evidence, Observer, RoundOrder, Silent
from probes.canary.leave import Leave, NotSent, ask_leave
from probes.canary.prompts import (
    PromptTooShort,
    PromptWriter,
    UnusableTokenizer,
    learn_vocabulary,
)
from probes.canary.results import RoundResult
from probes.canary.rounds import Duty, Outcome, Part, Progress, Row, Sending, Tenant, spent_on
from probes.canary.scene import Scene
from probes.canary.settling import settle
from probes.canary.sight import Asked, look_at, unsent
from probes.canary.survey import Survey
from probes.markers import MarkerIndex, MarkerKey, derive_request

#: How long an answer may take: a start and the slowest prefill worth waiting for.
_ANSWER_S = 60.0
_SLOWEST_TOKENS_A_SECOND = 500
_SLOWEST_NEW_TOKENS_A_SECOND = 4
#: A refusal that takes longer holds something up; waiting on holds it up more. Unit: seconds.
_REFUSAL_S = 30.0


@dataclass(slots=True, kw_only=True)
class _Conversation:
    """The requests of one round as they are sent, one at a time."""

    order: RoundOrder
    scene: Scene
    writer: PromptWriter
    index: MarkerIndex
    observer: Observer
    total: int
    rows: list[Row] = field(default_factory=list)
    stop_reason: str = ""

    async def send(self, sending: Sending) -> None:
        """Send one request, or record why it was not sent."""
        if not self.stop_reason and await self.observer.is_stopped():
            self.stop_reason = "somebody stopped the round"
        tenant = self.order.tenant_a if sending.is_by_filler else self.order.tenant_b
        label = f"{tenant.name}: {sending.length:,} tokens, {sending.purpose}"
        await self.observer.progressed(Progress(done=len(self.rows), total=self.total, label=label))
        reason = self.stop_reason or self.scene.hang_at(sending.length, sending.max_new_tokens)
        if reason:
            self._skip(sending, tenant, reason)
            return
        try:
            await self._ask(sending, tenant)
        except PromptTooShort as short:
            self._skip(sending, tenant, str(short))

    async def finish(self) -> None:
        """Tell the observer that nothing more is sent."""
        label = "reading the nodes again"
        await self.observer.progressed(Progress(done=self.total, total=self.total, label=label))

    async def _ask(self, sending: Sending, tenant: Tenant) -> None:
        request = derive_request(_seed_bytes(self.order.seed), len(self.rows))
        prompt = self.writer.write(tenant=tenant.number, request=request, length=sending.length)
        completion = await self.order.speaker.ask(
            token_ids=prompt.token_ids,
            max_new_tokens=sending.max_new_tokens,
            tenant_key=tenant.key,
            timeout_s=timeout_of(sending),
        )
        asked = Asked(
            position=len(self.rows),
            sending=sending,
            tenant=tenant,
            request=request,
            nonce=prompt.nonce,
        )
        row = look_at(asked, completion, index=self.index, names=_names(self.order))
        self.rows.append(row)
        self.stop_reason = _reason_to_stop(row)
        await self.observer.answered(row, completion.text)

    def _skip(self, sending: Sending, tenant: Tenant, reason: str) -> None:
        self.rows.append(
            unsent(position=len(self.rows), sending=sending, tenant=tenant.name, reason=reason)
        )


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
    for sending in leave.sendings:
        await conversation.send(sending)
    await conversation.finish()
    after = await order.surveyor.survey()
    rows = tuple(conversation.rows)
    evidence = Evidence(plan=order.plan, scene=leave.scene, rows=rows)
    return RoundResult(
        plan=order.plan,
        way=order.way,
        target=order.target,
        seed=order.seed,
        checks=settle(order, plan.judge(evidence), before, after),
        started_at=started_at,
        ended_at=now(),
        before=before,
        after=after,
        rows=rows,
        estimate=leave.estimate,
        spent=spent_on(rows),
        is_same_key=order.is_same_key,
        is_cordoned=leave.is_cordoned,
        acceptance=leave.acceptance,
    )


def timeout_of(sending: Sending) -> float:
    """Answer how long to wait for an answer to this request. Unit: seconds."""
    if sending.duty is Duty.REFUSAL:
        return _REFUSAL_S + sending.max_new_tokens / _SLOWEST_NEW_TOKENS_A_SECOND
    return _ANSWER_S + sending.length / _SLOWEST_TOKENS_A_SECOND


async def _prepare(order: RoundOrder, leave: Leave, observer: Observer) -> _Conversation:
    try:
        vocabulary = await learn_vocabulary(order.tokenize)
    except (FleetError, UnusableTokenizer) as fault:
        reason = f"prompts of exact length could not be made: {fault}"
        raise NotSent(reason, verdict=Verdict.INCONCLUSIVE) from None
    index = MarkerIndex(MarkerKey(order.secret))
    return _Conversation(
        order=order,
        scene=leave.scene,
        writer=PromptWriter(vocabulary=vocabulary, index=index, page_size=leave.scene.page_size),
        index=index,
        observer=observer,
        total=len(leave.sendings),
    )


def _reason_to_stop(row: Row) -> str:
    """Answer why nothing more may follow this row, or nothing where the next may."""
    before = f"the one of {row.length:,} tokens before it"
    if row.outcome is Outcome.NO_ANSWER:
        return f"{before} got no answer, and what it holds up must not be held up more; not sent"
    if row.outcome is Outcome.UNAUTHORISED:
        return f"{before} was turned away for its key; not sent"
    if row.part is Part.FILL and row.is_silent:
        return f"{before} failed; not sent"
    return ""


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
        estimate=refusal.estimate,
        is_same_key=order.is_same_key,
    )


def _names(order: RoundOrder) -> dict[int, str]:
    return {one.number: one.name for one in (order.tenant_a, order.tenant_b)}


def _seed_bytes(seed: int) -> bytes:
    return hashlib.sha256(str(seed).encode()).digest()
