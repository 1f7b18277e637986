"""Lets a node into its router, only after the gates passed on what all nodes say right now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import User

from common.registry import UnknownKey
from common.roles import Role, require_role
from common.trail import record
from common.verdicts import Verdict
from fleet.contract import RouterError
from fleet.endpoint import is_same_place, may_be_same_place
from fleet.models import Deployment, Node
from fleet.reading import Reading, Worker
from fleet.reading import Role as NodeRole
from fleet.selectors import deployment_access, nodes_current, out_of_rotation
from fleet.services import readings_take
from fleet.taking_out import rotation_list, rotation_look, worker_enter, worker_leave
from probes.deployment_judge import judge_readings
from probes.judgement import Judgement


class JoinRefused(Exception):
    """The node was not let in; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinLine:
    """One node as its router lists it; ``may_ask`` says that a join can be asked for."""

    node: Node
    state: str
    may_ask: bool


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
    problem: str = ""


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
        lines=tuple(_line(node, standing.workers) for node in nodes),
        strangers=_strangers(nodes, standing.workers),
        notes=standing.notes,
    )


def _line(node: Node, workers: Iterable[Worker]) -> JoinLine:
    there = [one for one in workers if is_same_place(one.url, node.url)]
    if not there:
        return JoinLine(node=node, state="not listed", may_ask=True)
    worker = there[0]
    health = "healthy" if worker.is_healthy else (worker.status or "not healthy")
    return JoinLine(
        node=node, state=f"listed as {worker.role or 'unknown'}, {health}", may_ask=False
    )


def _strangers(nodes: Iterable[Node], workers: Iterable[Worker]) -> tuple[str, ...]:
    known = [node.url for node in nodes]
    return tuple(
        worker.url for worker in workers if not any(is_same_place(worker.url, url) for url in known)
    )


def node_join(*, person: User, node: Node) -> Judgement:
    """Let a node into its router after a fresh pass of all required gates; answers that pass.

    Every node of the deployment is read and judged with it, and read again once it is in: where
    one of them changed meanwhile it is taken out again. Raises NotAllowed, JoinRefused,
    RouterError, UnknownKey.
    """
    require_role(person, Role.RESPONDER, Role.COMMANDER, to="let a node into its router")
    _require_open(node)
    _require_known(node, rotation_list(deployment=node.deployment))
    before = readings_take(deployment=node.deployment).readings
    judgement = judge_readings(deployment_access(node.deployment), before)
    if judgement.verdict is not Verdict.PASS:
        raise JoinRefused(f"{node} stays out of the router: {_blocking(judgement)}")
    subject, name = f"{node.deployment.name}/{node.name}", person.get_username()
    # The intent stands in the trail before the act, so that a killed process leaves a trace.
    record(actor=name, action="node_joining", subject=subject)
    _enter(node, before)
    record(actor=name, action="node_joined", subject=subject)
    return judgement


def _require_open(node: Node) -> None:
    """Refuse while the deployment is contained. Raises JoinRefused."""
    if node.retired_at is not None:
        raise JoinRefused(f"{node} is retired: add it as a node first")
    if taken := out_of_rotation(node.deployment):
        raise JoinRefused(
            f"{node.deployment} is out of rotation by {taken[0].taken_out_by}: what was taken out "
            "goes back through its own run or audit, and nothing joins before that"
        )


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


def _enter(node: Node, before: Iterable[Reading]) -> None:
    """Put a node in, and out again where it does not serve as it was judged.

    Raises JoinRefused, RouterError.
    """
    worker = _worker_of(node)
    try:
        worker_enter(deployment=node.deployment, worker=worker)
    except RouterError as fault:
        worker_leave(deployment=node.deployment, worker=worker)
        raise JoinRefused(f"{node} did not enter the router: {fault}") from None
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
