"""What a round came to, as a judgement and as the published JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypedDict

from common.verdicts import WORST_FIRST, Verdict
from probes.canary.departure import Episode
from probes.canary.departure_record import departures_document
from probes.canary.exclusion import describe_exclusion, excluded_rate, excluded_rate_999
from probes.canary.oracle_foreign import FOREIGN_MARKER
from probes.canary.pace import judge_pace
from probes.canary.rounds import NO_COST, Acceptance, Cost, Row, Way
from probes.canary.saved_scene import scene_document
from probes.canary.scene import Scene
from probes.canary.survey import Survey
from probes.exercised import process_print
from probes.judgement import Check, Judgement, JudgementDocument


class SightingDocument(TypedDict):
    """A marker in an answer, as published."""

    tenant: str
    request: str
    page: int
    offset: int
    length: int
    is_own: bool
    view: str
    net_bits: float | None
    is_suspect: bool


class RowDocument(TypedDict):
    """One request of a round, as published; the answer is in it by length and digest only."""

    position: int
    part: str
    purpose: str
    tenant: str
    request: str
    length: int
    max_new_tokens: int
    duty: str
    outcome: str
    reason: str
    status: int | None
    cause: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    finish: str | None
    seconds: float
    echo: str
    echo_offset: int | None
    markers: list[SightingDocument]
    answer_length: int
    answer_sha256: str
    said_sha256: str
    opening_sha256: str
    script: str
    wave: int
    salt: str
    api: str
    streamed: bool
    temperature: float
    bystander: bool
    first_token_s: float | None
    cached_tokens: int | None
    answer_id: str
    cache_marks: dict[str, str]
    worker: str
    asked_pages: list[int]
    missing_pages: list[int]


class CostDocument(TypedDict):
    """What was to be paid at most, and what was paid. Unit: tokens, seconds.

    ``estimated_seconds`` is what it takes on the slowest engine that is waited for.
    """

    estimated_tokens: int
    estimated_seconds: float
    spent_tokens: int
    requests: int
    seconds: float


class RoundDocument(TypedDict):
    """One round, as published; ``checks`` holds the verdict of each, by name."""

    plan: str
    way: str
    target: str
    seed: int
    verdict: str
    checks: dict[str, str]
    same_key: bool
    cordoned: bool
    accepted_by: str | None
    accepted_reason: str | None
    started_at: str
    ended_at: str
    fingerprints: dict[str, str]
    scene: dict[str, object]
    cost: CostDocument
    rows: list[RowDocument]
    departures: list[dict[str, object]]


class CanaryDocument(JudgementDocument):
    """What ``canary --json`` prints: a judgement, its rounds, and what they cost together."""

    rounds: list[RoundDocument]
    cost: CostDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """One round: what was sent, showed and cost; ``after`` is None where nothing was sent."""

    plan: str
    way: Way
    target: str
    seed: int
    checks: tuple[Check, ...]
    started_at: datetime
    ended_at: datetime
    before: Survey
    after: Survey | None = None
    rows: tuple[Row, ...] = ()
    episodes: tuple[Episode, ...] = ()
    scene: Scene | None = None
    workers: tuple[str, ...] = ()
    estimate: Cost = NO_COST
    spent: Cost = NO_COST
    is_same_key: bool = False
    is_cordoned: bool = False
    acceptance: Acceptance | None = None

    def judgement(self) -> Judgement:
        """Answer the checks of this round alone."""
        return Judgement(checks=self.checks)

    def document(self) -> RoundDocument:
        """Answer the published JSON of this round."""
        accepted = self.acceptance
        return {
            "plan": self.plan,
            "way": str(self.way),
            "target": self.target,
            "seed": self.seed,
            "verdict": str(self.judgement().verdict),
            "checks": {one.check: str(one.verdict) for one in self.checks},
            "same_key": self.is_same_key,
            "cordoned": self.is_cordoned,
            "accepted_by": None if accepted is None else accepted.by,
            "accepted_reason": None if accepted is None else accepted.reason,
            "started_at": self.started_at.isoformat(),
            "ended_at": self.ended_at.isoformat(),
            "fingerprints": {one.node: process_print(one) for one in self.before.readings},
            "scene": self._scene_document(),
            "cost": cost_document([self]),
            "rows": [row_document(row) for row in self.rows],
            "departures": departures_document(self.episodes),
        }

    def _scene_document(self) -> dict[str, object]:
        if self.scene is None:
            return {}
        return {**scene_document(self.scene), "workers": list(self.workers)}


def judge_rounds(results: Sequence[RoundResult]) -> Judgement:
    """Answer one judgement over several rounds: of each check, the worst of its rounds.

    A pass over all rounds says how many there were and what leak rate they exclude.
    """
    groups: dict[tuple[str, str], list[Check]] = {}
    for result in results:
        for check in result.checks:
            groups.setdefault((check.check, check.target), []).append(check)
    worst = tuple(_worst_of(checks) for checks in groups.values())
    return Judgement(checks=(*worst, *_paces(results)))


def _paces(results: Sequence[RoundResult]) -> Iterator[Check]:
    """Answer whether one of the pairs that were probed by themselves is slow."""
    rows: dict[str, dict[str, list[Row]]] = {}
    for result in results:
        if result.way is Way.PAIR and result.rows:
            rows.setdefault(result.plan, {}).setdefault(result.target, []).extend(result.rows)
    for plan, of_pairs in rows.items():
        yield from judge_pace(plan, of_pairs)


def canary_document(results: Sequence[RoundResult]) -> CanaryDocument:
    """Answer the published JSON of several rounds."""
    judged = judge_rounds(results).document()
    return {
        "verdict": judged["verdict"],
        "checks": judged["checks"],
        "skipped": judged["skipped"],
        "remedies": judged["remedies"],
        "rounds": [result.document() for result in results],
        "cost": cost_document(results),
    }


def cost_document(results: Sequence[RoundResult]) -> CostDocument:
    """Answer the published cost of several rounds together."""
    return {
        "estimated_tokens": sum(one.estimate.tokens for one in results),
        "estimated_seconds": round(sum(one.estimate.seconds for one in results), 1),
        "spent_tokens": sum(one.spent.tokens for one in results),
        "requests": sum(one.spent.requests for one in results),
        "seconds": round(sum(one.spent.seconds for one in results), 3),
    }


def row_document(row: Row) -> RowDocument:
    """Answer the published JSON of a row."""
    return {
        "position": row.position,
        "part": str(row.part),
        "purpose": row.purpose,
        "tenant": row.tenant,
        "request": row.request,
        "length": row.length,
        "max_new_tokens": row.max_new_tokens,
        "duty": str(row.duty),
        "outcome": str(row.outcome),
        "reason": row.reason,
        "status": row.status,
        "cause": None if row.cause is None else str(row.cause),
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "finish": row.finish,
        "seconds": row.seconds,
        "echo": str(row.echo),
        "echo_offset": row.echo_offset,
        "markers": [
            {
                "tenant": one.tenant,
                "request": one.request,
                "page": one.page,
                "offset": one.offset,
                "length": one.length,
                "is_own": one.is_own,
                "view": one.view,
                "net_bits": one.net_bits,
                "is_suspect": one.is_suspect,
            }
            for one in row.sightings
        ],
        "answer_length": row.answer_length,
        "answer_sha256": row.answer_digest,
        "said_sha256": row.said_digest,
        "opening_sha256": row.opening_digest,
        "script": row.script,
        "wave": row.wave,
        "salt": row.salt,
        "api": row.api,
        "streamed": row.is_streamed,
        "temperature": row.temperature,
        "bystander": row.is_bystander,
        "first_token_s": row.first_token_s,
        "cached_tokens": row.cached_tokens,
        "answer_id": row.answer_id,
        "cache_marks": dict(row.cache_marks),
        "worker": row.worker,
        "asked_pages": list(row.asked_pages),
        "missing_pages": list(row.missing_pages),
    }


def _worst_of(checks: Sequence[Check]) -> Check:
    worst = min(checks, key=lambda check: WORST_FIRST.index(check.verdict))
    rounds = len(checks)
    figures = dict(worst.figures) | {"rounds": rounds}
    if worst.verdict is not Verdict.PASS:
        return replace(worst, figures=figures)
    figures["excluded_rate_95"] = excluded_rate(rounds)
    figures["excluded_rate_999"] = excluded_rate_999(rounds)
    if not worst.check.endswith(f".{FOREIGN_MARKER}"):
        return replace(worst, figures=figures)
    reason = worst.reason.removesuffix(f"; {describe_exclusion(1)}")
    return replace(worst, figures=figures, reason=f"{reason}; {describe_exclusion(rounds)}")
