"""Read models of the pages: what a page shows, assembled in few queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from common.verdicts import WORST_FIRST, Verdict
from fleet.models import Deployment, Node, NodeReading, OutOfRotation
from fleet.rotation_rows import RotationWatch
from probes.charts import PoolBar, pool_figure
from probes.history import HistoryLine
from probes.judgement import Kind
from probes.models import Audit, AuditCheck, AuditState, Proof
from probes.selectors import RankedFinding, changes_newest, findings_ranked
from probes.standing import Standing, standing_of

POOL_CHECK = "pool_covers_context"
PAIR_CHECK = "pair_exposure"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentLine:
    """One deployment in a list: its standing, its pools and what runs now."""

    deployment: Deployment
    standing: Standing
    engine: str
    node_count: int
    bars: tuple[PoolBar, ...] = ()
    figure: Mapping[str, Any] = field(default_factory=dict)
    context: int | None = None
    wanted: int | None = None
    running: Audit | None = None

    @property
    def chart_says(self) -> str:
        """Answer in words what the drawing shows."""
        shown = "; ".join(f"{bar.label} {bar.pool:,}" for bar in self.bars if bar.pool is not None)
        return f"Pool against a context of {self.context:,} tokens: {shown}" if self.context else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node on its deployment's page: its newest reading and the band it is judged by."""

    node: Node
    reading: NodeReading | None
    document: Mapping[str, Any]
    figures: Mapping[str, Any]

    @property
    def pool(self) -> int | None:
        """Answer the pool as the gate judged it, else as the node says it."""
        figure = self.figures.get("pool", self.document.get("pool"))
        return figure if isinstance(figure, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPage:
    """All that the deployment page shows."""

    line: DeploymentLine
    nodes: tuple[NodeLine, ...]
    pairs: tuple[AuditCheck, ...]
    findings: tuple[RankedFinding, ...]
    taken_out: tuple[OutOfRotation, ...]
    proof: Proof | None
    audits: tuple[Audit, ...]
    keys: tuple[str, ...]
    excludes: str
    history: tuple[HistoryLine, ...] = ()
    watch: RotationWatch | None = None

    @property
    def is_exposed(self) -> bool:
        """Answer whether the newest audit found an exposed pair."""
        return any(check.verdict == "fail" for check in self.pairs)


def deployment_lines(deployments: QuerySet[Deployment] | None = None) -> tuple[DeploymentLine, ...]:
    """Answer every deployment with its standing, in a fixed number of queries."""
    rows = list(Deployment.objects.all() if deployments is None else deployments)
    keys = [row.pk for row in rows]
    nodes = _grouped(Node.objects.filter(deployment__in=keys, retired_at=None), "deployment_id")
    audits = {
        one.deployment_id: one for one in _newest(Audit.objects.filter(state__in=_OVER), keys)
    }
    running = {
        one.deployment_id: one for one in _newest(Audit.objects.exclude(state__in=_OVER), keys)
    }
    proofs = _proofs(keys)
    judged = {
        one.deployment_id: one.pk
        for one in _newest(Audit.objects.filter(state=AuditState.DONE), keys)
    }
    checks = _grouped(
        AuditCheck.objects.filter(audit__in=judged.values(), check_name=POOL_CHECK), "audit_id"
    )
    readings = _readings(keys)
    lines = [
        _line(
            row,
            standing=standing_of(audits.get(row.pk), proofs.get(row.pk)),
            nodes=nodes[row.pk],
            readings=[readings[one.pk] for one in nodes[row.pk] if one.pk in readings],
            checks=checks[judged.get(row.pk, 0)],
            running=running.get(row.pk),
        )
        for row in rows
    ]
    return tuple(sorted(lines, key=lambda line: _WORST_FIRST.index(line.standing.verdict)))


def deployment_page(deployment: Deployment) -> DeploymentPage:
    """Answer all that one deployment's page shows, in a fixed number of queries."""
    (line,) = deployment_lines(Deployment.objects.filter(pk=deployment.pk))
    audits = tuple(deployment.audits.order_by("-queued_at", "-pk")[:10])
    judged = next((audit for audit in audits if audit.state == AuditState.DONE), None)
    checks = list(judged.checks.filter(check_name__in=[POOL_CHECK, PAIR_CHECK])) if judged else []
    figures = {check.target: check.figures for check in checks if check.check_name == POOL_CHECK}
    readings = _readings([deployment.pk])
    proof = _proofs([deployment.pk]).get(deployment.pk)
    nodes = Node.objects.filter(deployment=deployment, retired_at=None)
    return DeploymentPage(
        line=line,
        nodes=tuple(_node_line(node, readings.get(node.pk), figures) for node in nodes),
        pairs=tuple(check for check in checks if check.check_name == PAIR_CHECK),
        findings=findings_ranked(deployment),
        taken_out=tuple(deployment.taken_out.filter(put_back_at=None)),
        proof=proof,
        audits=audits,
        keys=tuple(one.get_purpose_display() for one in deployment.credentials.defer("sealed")),
        excludes=_excludes(proof),
        history=changes_newest(deployment),
        watch=RotationWatch.objects.filter(deployment=deployment).first(),
    )


def _excludes(proof: Proof | None) -> str:
    """Answer what a standing proof excludes, in the words of its leak oracle."""
    if proof is None or not proof.is_standing:
        return ""
    leaks = AuditCheck.objects.filter(audit=proof.audit_id, kind=Kind.LEAK, verdict=Verdict.PASS)
    return leaks.values_list("reason", flat=True).first() or ""


_OVER = (AuditState.DONE, AuditState.STOPPED)
#: Order of a list of deployments: one that nothing is known of stands before one that passed.
_WORST_FIRST = (*(str(verdict) for verdict in WORST_FIRST[:-1]), "", str(Verdict.PASS))


def _node_line(
    node: Node, reading: NodeReading | None, figures: Mapping[str, Mapping[str, Any]]
) -> NodeLine:
    return NodeLine(
        node=node,
        reading=reading,
        document=reading.document if reading else {},
        figures=figures.get(node.name, {}),
    )


def _line(  # noqa: PLR0913 - keyword-only: the parts of one line
    deployment: Deployment,
    *,
    standing: Standing,
    nodes: Sequence[Node],
    readings: Sequence[NodeReading],
    checks: Sequence[AuditCheck],
    running: Audit | None,
) -> DeploymentLine:
    roles = {node.name: node.role for node in nodes}
    bars = pool_bars(checks, roles)
    return DeploymentLine(
        deployment=deployment,
        standing=standing,
        engine=_engine_words(deployment, readings),
        node_count=len(nodes),
        bars=bars,
        figure=pool_figure(bars) if bars else {},
        context=max((bar.context for bar in bars if bar.context), default=None),
        wanted=max((bar.wanted for bar in bars if bar.wanted), default=None),
        running=running,
    )


def pool_bars(checks: Iterable[AuditCheck], roles: Mapping[str, str]) -> tuple[PoolBar, ...]:
    """Answer one bar for each node, prefill first; nodes that are alike share one."""
    alike: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for check in checks:
        figures = check.figures
        key = (
            roles.get(check.target, ""),
            figures.get("pool"),
            figures.get("context"),
            figures.get("required"),
        )
        alike[key].append(check.target)
    order = sorted(alike, key=lambda key: (-_ROLE_ORDER.get(key[0], 0), alike[key]))
    return tuple(
        PoolBar(
            label=_label(role, alike[key]), role=role, pool=pool, context=context, wanted=wanted
        )
        for key in order
        for role, pool, context, wanted in [key]
    )


_ROLE_ORDER = {"prefill": 2, "decode": 1, "unified": 0}


def _label(role: str, names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} \N{MULTIPLICATION SIGN} {role or 'node'}"


def _engine_words(deployment: Deployment, readings: Sequence[NodeReading]) -> str:
    """Answer engine, versions and transfer backend as the nodes say them."""
    versions = sorted(
        {str(one.document.get("version")) for one in readings if one.document.get("version")}
    )
    backends = sorted(
        {
            str(one.document["transfer_backend"])
            for one in readings
            if one.document.get("transfer_backend")
        }
    )
    engine = f"{deployment.get_engine_display()} {' and '.join(versions)}".strip()
    return ", ".join([engine, *backends])


def _newest(audits: QuerySet[Audit], deployments: Sequence[int]) -> list[Audit]:
    return list(
        audits.filter(deployment__in=deployments)
        .order_by("deployment_id", "-queued_at", "-pk")
        .distinct("deployment_id")
    )


def _proofs(deployments: Sequence[int]) -> dict[int, Proof]:
    newest = (
        Proof.objects.defer("bundle")
        .filter(deployment__in=deployments)
        .order_by("deployment_id", "-granted_at", "-pk")
        .distinct("deployment_id")
    )
    return {proof.deployment_id: proof for proof in newest}


def _readings(deployments: Sequence[int]) -> dict[int, NodeReading]:
    newest = (
        NodeReading.objects.filter(node__deployment__in=deployments, node__retired_at=None)
        .order_by("node_id", "-taken_at", "-pk")
        .distinct("node_id")
    )
    return {reading.node_id: reading for reading in newest}


def _grouped(rows: QuerySet[Any], column: str) -> defaultdict[int, list[Any]]:
    groups: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, column)].append(row)
    return groups
