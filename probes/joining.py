"""Lets a node into its router, only after the gates passed on what all nodes say right now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from common.registry import UnknownKey
from common.trail import record
from common.verdicts import Verdict
from fleet.contract import RouterError
from fleet.endpoint import is_same_place, may_be_same_place
from fleet.models import Deployment, Node
from fleet.reading import Reading, Worker
from fleet.reading import Role as NodeRole
from fleet.rotation import Breakers
from fleet.selectors import nodes_current, out_of_rotation
from fleet.services import readings_take
from fleet.taking_out import rotation_list, rotation_look, worker_enter, worker_leave
from probes.judgement import Judgement
from probes.judging import judge_deployment


class JoinRefused(Exception):
    """The node was not let in; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinLine:
    """One node as its router lists it; ``may_ask`` says that a join can be asked for.

    ``breaker`` is empty where it is not known.
    """

    node: Node
    state: str
    may_ask: bool
    breaker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterView:
    """A deployment's router as it answers now. ``problem`` stands where it could not be read.

    ``strangers`` are listed workers that are no node of the deployment; ``notes`` say what putting
    workers back would take beyond an order.
    """

    kind: str = ""
    readiness: str = ""
    lines: tuple[JoinLine, ...] = ()
    strangers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    breakers: Breakers | None = None
    problem: str = ""

    @property
    def listed_count(self) -> int:
        """Answer how many nodes of the deployment it lists."""
        return sum(not line.may_ask for line in self.lines)

    @property
    def has_breakers(self) -> bool:
        """Answer whether its circuit breakers could be read."""
        return self.breakers is not None and not self.breakers.problem

    @property
    def not_closed(self) -> tuple[JoinLine, ...]:
        """Answer the listed nodes whose breaker is not known to be closed."""
        return tuple(line for line in self.lines if not line.may_ask and line.breaker != "closed")


def router_view(deployment: Deployment) -> RouterView:
    """Answer what a deployment's router lists of its nodes. Raises nothing."""
    try:
        standing = rotation_look(deployment=deployment)
    except (RouterError, UnknownKey) as fault:
        return RouterView(problem=str(fault))
    nodes = nodes_current(deployment)
    return RouterView(
        kind=standing.kind,
        readiness=standing.readiness,
        lines=tuple(_line(node, standing.workers, standing.breakers) for node in nodes),
        strangers=_strangers(nodes, standing.workers),
        notes=standing.notes,
        breakers=standing.breakers,
    )


def _line(node: Node, workers: Iterable[Worker], breakers: Breakers | None) -> JoinLine:
    there = [one for one in workers if is_same_place(one.url, node.url)]
    if not there:
        return JoinLine(node=node, state="not listed", may_ask=True)
    worker = there[0]
    health = "healthy" if worker.is_healthy else (worker.status or "not healthy")
    return JoinLine(
        node=node,
        state=f"listed as {worker.role or 'unknown'}, {health}",
        may_ask=False,
        breaker=breakers.state_at(node.url) if breakers else "",
    )


def _strangers(nodes: Iterable[Node], workers: Iterable[Worker]) -> tuple[str, ...]:
    known = [node.url for node in nodes]
    return tuple(
        worker.url for worker in workers if not any(is_same_place(worker.url, url) for url in known)
    )


class Witness(Protocol):
    """Who hears how far a join is, and that the router is about to be told."""

    def reports(self, text: str) -> None:
        """Hear in one line what is done now."""
        ...

    def enters(self) -> None:
        """Hear that the node is let in next; whoever is killed after it must take it out again."""
        ...


def join_check(node: Node) -> None:
    """Refuse what is known to be wrong before anybody is asked. Raises JoinRefused."""
    if node.retired_at is not None:
        raise JoinRefused(f"{node} is retired: add it as a node first")
    if taken := out_of_rotation(node.deployment):
        raise JoinRefused(
            f"{node.deployment} is out of rotation by {taken[0].taken_out_by}: what was taken out "
            "goes back through its own run or audit, and nothing joins before that"
        )


def node_join(*, actor: str, node: Node, witness: Witness) -> Judgement:
    """Let a node into its router after a fresh pass of all required gates; answers that pass.

    Every node of the deployment is read and judged with it, and read again once it is in: where
    one of them changed meanwhile it is taken out again. Whoever calls it has checked the actor's
    role. Raises JoinRefused, RouterError, UnknownKey.
    """
    join_check(node)
    witness.reports("asking the router what it lists")
    _require_known(node, rotation_list(deployment=node.deployment))
    witness.reports("reading and judging every node of the deployment")
    before = readings_take(deployment=node.deployment).readings
    judgement = judge_deployment(node.deployment, before)
    if judgement.verdict is not Verdict.PASS:
        raise JoinRefused(f"{node} stays out of the router: {_blocking(judgement)}")
    subject = f"{node.deployment.name}/{node.name}"
    # The intent stands in the trail before the act, so that a killed process leaves a trace.
    record(actor=actor, action="node_joining", subject=subject)
    witness.enters()
    witness.reports("every required gate passed; waiting until the router serves it")
    _enter(node, before, witness)
    record(actor=actor, action="node_joined", subject=subject)
    return judgement


def join_withdraw(node: Node) -> None:
    """Take a node out again whose join nobody saw to its end. Raises RouterError, UnknownKey."""
    worker_leave(deployment=node.deployment, worker=_worker_of(node))


def _require_known(node: Node, listed: tuple[Worker, ...]) -> None:
    """Refuse where the router lists the node, or workers that nobody reads. Raises JoinRefused."""
    for worker in listed:
        if is_same_place(worker.url, node.url):
            raise JoinRefused(f"the router lists {node} already")
        if may_be_same_place(worker.url, node.url):
            raise JoinRefused(
                f"the router lists {worker.url}, which may be {node} under another spelling: name "
                "the node as the router does"
            )
    if strangers := _strangers(nodes_current(node.deployment), listed):
        raise JoinRefused(
            f"the router lists {', '.join(strangers)}, which is no node of {node.deployment}: add "
            "it, so that it is judged too"
        )


def _blocking(judgement: Judgement) -> str:
    """Answer why a judgement is no pass, its required checks first to last."""
    reasons = [
        f"{check.check} of {check.target or 'all'} is {check.verdict}: {check.reason}"
        for check in judgement.checks
        if check.required and check.verdict is not Verdict.PASS
    ]
    return "; ".join(reasons) or "no required check was judged"


def _worker_of(node: Node) -> Worker:
    return Worker(
        worker_id="",
        url=node.url,
        role=NodeRole(node.role),
        is_healthy=False,
        bootstrap_port=node.bootstrap_port,
    )


def _enter(node: Node, before: Iterable[Reading], witness: Witness) -> None:
    """Put a node in, and out again where it does not serve as it was judged.

    Raises JoinRefused, RouterError.
    """
    worker = _worker_of(node)
    try:
        worker_enter(deployment=node.deployment, worker=worker)
    except RouterError as fault:
        worker_leave(deployment=node.deployment, worker=worker)
        raise JoinRefused(f"{node} did not enter the router: {fault}") from None
    witness.reports("it is in; reading every node once more")
    if problem := _change_since(node, before):
        worker_leave(deployment=node.deployment, worker=worker)
        raise JoinRefused(f"{node} was taken out of the router again: {problem}")


def _change_since(node: Node, before: Iterable[Reading]) -> str:
    """Answer what is no longer as it was judged; empty where nothing."""
    if taken := out_of_rotation(node.deployment):
        return f"{taken[0].taken_out_by} took the deployment out of rotation meanwhile"
    judged = {one.node: one.fingerprint for one in before}
    after = readings_take(deployment=node.deployment).readings
    now_there = {one.node: one.fingerprint for one in after if one.is_read}
    changed = sorted(name for name in judged if now_there.get(name) != judged[name])
    return f"{', '.join(changed)} changed meanwhile: try again" if changed else ""
