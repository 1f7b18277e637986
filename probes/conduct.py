"""Conducts one audit: cordon where asked, rounds or gates alone, then the record of it all."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from common.clock import now
from common.heartbeat import Heartbeat
from common.leases import owner_name
from common.verdicts import Verdict
from fleet.access import DeploymentAccess
from fleet.contract import FleetError
from fleet.selectors import deployment_access, outbound_client
from fleet.services import readings_take
from fleet.taking_out import deployment_drain, rotation_leave, rotation_return
from probes.canary.between import moved_between
from probes.canary.contract import PLANS, RoundOrder
from probes.canary.heads import round_head
from probes.canary.results import RoundResult, judge_rounds, row_document
from probes.canary.rounds import Acceptance, Progress
from probes.canary.rounds import Way as RoundWay
from probes.canary.runner import run_round
from probes.canary.ways import marker_secret
from probes.following import Answered, Feed, News, RoundBegan, follow
from probes.judgement import Judgement
from probes.judging import judge_deployment
from probes.marker_registry import secret_keep
from probes.models import Audit, AuditState, CanaryRow, Way
from probes.orders import RoundWish, orders_of, tenants_of
from probes.outcome import AuditOutcome, audit_finish
from probes.services import audit_stop

log = logging.getLogger(__name__)

LIVE = (AuditState.QUEUED, AuditState.RUNNING)
#: A worker that dies on an audit time after time is not helped by another.
MAX_ATTEMPTS = 3
_DRAIN_WITHIN_S = 120.0
_DRAIN_LOOK_EVERY_S = 1.0


class Ended(Exception):
    """The audit ends without a verdict of its own; the text says why."""


def audit_conduct(*, audit_pk: int) -> bool:
    """Claim an audit and bring it to its end; answers False where another holds it."""
    owner = owner_name()
    if not Audit.objects.filter(state__in=LIVE).claim(audit_pk, owner=owner):
        return False
    try:
        with Heartbeat(Audit.objects.all(), audit_pk, owner=owner) as heartbeat:
            audit = Audit.objects.select_related("deployment", "acceptance__by").get(pk=audit_pk)
            _conduct(audit, owner, heartbeat)
    finally:
        Audit.objects.all().release(audit_pk, owner=owner)
    return True


def _conduct(audit: Audit, owner: str, heartbeat: Heartbeat) -> None:
    try:
        _begin(audit)
        if audit.is_cordoning:
            _cordon(audit)
        access = deployment_access(audit.deployment)
        outcome = (
            _gates_alone(audit) if audit.way == Way.NONE else _rounds(audit, access, heartbeat)
        )
        audit_finish(audit=audit, owner=owner, outcome=outcome)
        if audit.is_cordoning:
            _uncordon(audit, outcome.judgement.verdict)
    except (Ended, FleetError) as reason:
        audit_stop(audit=audit, problem=str(reason))
    except Exception:
        log.exception("audit %s raised", audit.pk)
        audit_stop(
            audit=audit,
            problem="Pagewarden itself failed at this audit; the worker's log has the details",
        )


def _begin(audit: Audit) -> None:
    """Start clean: what a killed worker left half-done proves nothing. Raises Ended."""
    if audit.attempts > MAX_ATTEMPTS:
        raise Ended(f"{MAX_ATTEMPTS} workers died while they conducted this audit")
    audit.rows.all().delete()
    audit.state = AuditState.RUNNING
    audit.started_at = audit.started_at or now()
    audit.progress = {"done": 0, "total": 0, "label": "reading every node"}
    audit.rounds = []
    audit.save(update_fields=["state", "started_at", "progress", "rounds"])


def _gates_alone(audit: Audit) -> AuditOutcome:
    look = readings_take(deployment=audit.deployment)
    return AuditOutcome(
        judgement=judge_deployment(audit.deployment, look.readings), readings_before=look.readings
    )


def _rounds(audit: Audit, access: DeploymentAccess, heartbeat: Heartbeat) -> AuditOutcome:
    wish = RoundWish(
        plans=audit.plans,
        seeds=audit.seeds,
        way=RoundWay.PAIR if audit.way == Way.PAIR else RoundWay.ROUTER,
        acceptance=_acceptance_of(audit),
    )
    unknown = [name for name in audit.plans if name not in PLANS]
    if unknown:
        raise Ended(f"no canary plan is called {unknown[0]} (known: {', '.join(PLANS.all())})")
    recorder = _Recorder(audit, heartbeat)
    tenants = tenants_of(access)
    # Before the first marker is sent: whoever finds one must be able to tell where it is from.
    secret_keep(deployment=audit.deployment, secret=marker_secret(*tenants), tenants=tenants)

    async def work(feed: Feed) -> list[RoundResult]:
        async with outbound_client() as client:
            return [await _round(order, feed) for order in await orders_of(access, client, wish)]

    results = follow(work, recorder.hear)
    if not results:
        raise Ended("there is no prefill and decode pair to probe: add the nodes first")
    return _outcome(audit, results)


async def _round(order: RoundOrder, feed: Feed) -> RoundResult:
    feed.begin(plan=order.plan, target=order.target)
    return await run_round(order, feed)


def _outcome(audit: Audit, results: Sequence[RoundResult]) -> AuditOutcome:
    before = results[0].before.readings
    after = results[-1].after
    gates = judge_deployment(
        audit.deployment, before, rounds=[result.document() for result in results]
    )
    canary = judge_rounds(results)
    return AuditOutcome(
        judgement=Judgement(
            checks=(*gates.checks, *canary.checks, *moved_between(results)),
            skipped=(*gates.skipped, *canary.skipped),
            remedies=gates.remedies,
        ),
        readings_before=before,
        readings_after=after.readings if after else (),
        cost_tokens=sum(result.spent.tokens for result in results),
        has_rounds=all(result.rows for result in results),
        rounds=[round_head(number, one) for number, one in enumerate(results, start=1)],
    )


def _acceptance_of(audit: Audit) -> Acceptance | None:
    given = audit.acceptance
    if given is None:
        return None
    return Acceptance(
        by=given.by.get_username(),
        reason=given.reason,
        fingerprints=frozenset(given.fingerprints.values()),
    )


class _Recorder:
    """Writes down what running rounds report, and stops them when the audit is no longer ours."""

    def __init__(self, audit: Audit, heartbeat: Heartbeat) -> None:
        self._audit = audit
        self._heartbeat = heartbeat
        self._round = 0

    def hear(self, feed: Feed, news: News) -> None:
        """Store one piece of news."""
        if self._heartbeat.is_lost or not self._is_wanted():
            feed.stop()
        elif isinstance(news, RoundBegan):
            self._begin(news)
        elif isinstance(news, Progress):
            self._show(news)
        else:
            self._keep(news)

    def _is_wanted(self) -> bool:
        return Audit.objects.filter(
            pk=self._audit.pk, state=AuditState.RUNNING, deadline_at__gt=now()
        ).exists()

    def _begin(self, began: RoundBegan) -> None:
        self._round += 1
        head = {"number": self._round, "plan": began.plan, "target": began.target}
        self._audit.rounds = [*self._audit.rounds, head]
        Audit.objects.filter(pk=self._audit.pk).update(rounds=self._audit.rounds)

    def _show(self, progress: Progress) -> None:
        Audit.objects.filter(pk=self._audit.pk).update(
            progress={
                "done": progress.done,
                "total": progress.total,
                "label": progress.label,
                "round": self._round,
            }
        )

    def _keep(self, answered: Answered) -> None:
        row = CanaryRow(
            audit=self._audit,
            round_number=self._round,
            position=answered.row.position,
            document=row_document(answered.row),
        )
        row.answer = answered.text
        row.save()


def _cordon(audit: Audit) -> None:
    """Take the deployment out and wait until its engines are empty. Raises Ended, FleetError."""
    rotation_leave(deployment=audit.deployment, actor=_actor(audit))
    deadline = time.monotonic() + _DRAIN_WITHIN_S
    drain = deployment_drain(deployment=audit.deployment)
    while not drain.is_over:
        if time.monotonic() > deadline:
            raise Ended(
                f"out of the router, but not drained within {_DRAIN_WITHIN_S:.0f} s: {drain.text}"
            )
        Audit.objects.filter(pk=audit.pk).update(
            progress={"done": 0, "total": 0, "label": f"draining: {drain.text}"[:300]}
        )
        time.sleep(_DRAIN_LOOK_EVERY_S)
        drain = deployment_drain(deployment=audit.deployment)


def _uncordon(audit: Audit, verdict: Verdict) -> None:
    """Put back what this audit took out, after a pass and only then."""
    if verdict is not Verdict.PASS:
        return
    try:
        rotation_return(deployment=audit.deployment, taken_out_by=_actor(audit))
    except FleetError as error:
        problem = f"passed, but not everything could be put back: {error}"
        Audit.objects.filter(pk=audit.pk).update(problem=problem[:500])


def _actor(audit: Audit) -> str:
    return f"audit {audit.pk} for {audit.requested_by}"
