"""Judges saved rounds (docs/canary-rounds.md): the same oracles over what somebody kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from common.registry import load_plugins
from common.verdicts import Verdict
from probes.canary.aborts import KEY as DEPARTURES
from probes.canary.contract import PLANS, Evidence
from probes.canary.departure_record import episodes_in
from probes.canary.departure_record import judge_saved as judge_departures
from probes.canary.observed import PLAN as OBSERVED
from probes.canary.observed import Observed, judge_observed
from probes.canary.oracle_trend import Window
from probes.canary.rounds import Part, Row
from probes.canary.saved_fields import (
    BadRound,
    Document,
    count_in,
    names_in,
    object_in,
    objects_in,
    switch_in,
    text_in,
    whole_text_in,
)
from probes.canary.saved_rows import read_row
from probes.canary.saved_scene import read_scene
from probes.canary.scene import Scene
from probes.canary.strangers import Code
from probes.judgement import Check, Kind, Skipped

_MOST_ROWS = 100_000
_TARGET = "saved round"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """A saved round as it was read.

    ``said`` is the verdict that was told when it was made, ``checks`` that of each of its checks.
    """

    plan: str
    observed: Observed
    said: str
    checks: Mapping[str, object]

    @property
    def is_unsent(self) -> bool:
        """Answer whether nothing of it was sent, and it said so."""
        return not self.observed.evidence.rows and self.said == Verdict.NOT_EXERCISED


def judge_saved(rounds: Iterable[object]) -> tuple[Check | Skipped, ...]:
    """Answer the checks of saved rounds; of each check the worst of its rounds.

    A round that cannot be read is an inconclusive check that says which field is wrong.
    """
    load_plugins("probes.plans")
    found: dict[tuple[str, str], Check | Skipped] = {}
    for number, document in enumerate(rounds):
        for one in _judge(document, number):
            key = (one.check, one.target if isinstance(one, Check) else "")
            found[key] = _worse(found.get(key), one)
    return tuple(found.values())


def _judge(document: object, number: int) -> Iterator[Check | Skipped]:
    if isinstance(document, dict) and document.get("plan") == DEPARTURES:
        yield from judge_departures([document])
        return
    try:
        saved = _read(document)
    except BadRound as fault:
        yield _unreadable(number, str(fault))
        return
    if saved.plan == OBSERVED:
        yield from judge_observed(saved.observed)
        return
    evidence, plan = saved.observed.evidence, PLANS.get(saved.plan)
    if saved.is_unsent:
        yield from plan.not_exercised(evidence.scene.target, "nothing of the saved round was sent")
        return
    for check in plan.judge(evidence):
        yield _as_told(check, saved)


def _as_told(check: Check, saved: _Round) -> Check:
    """Answer a check; what moved while a round ran is in its own verdict alone.

    So a pass needs that of the check too. A round that tells only its whole verdict may have failed
    for another check.
    """
    told = saved.checks.get(check.check)
    said = str(told or saved.said)
    enough = {str(Verdict.PASS)} if told else {str(Verdict.PASS), str(Verdict.FAIL)}
    if check.verdict is not Verdict.PASS or said in enough:
        return check
    was = said or "without a verdict"
    reason = f"the round itself was {was} when it was made; of its rows alone: {check.reason}"
    return replace(check, verdict=Verdict.INCONCLUSIVE, reason=reason)


def _unreadable(number: int, why: str) -> Check:
    return Check(
        check="canary",
        target=f"canary.rounds[{number}]",
        verdict=Verdict.INCONCLUSIVE,
        kind=Kind.LEAK,
        reason=f"canary.rounds[{number}] cannot be read: {why} (docs/canary-rounds.md)",
    )


def _worse(before: Check | Skipped | None, one: Check | Skipped) -> Check | Skipped:
    if before is None or isinstance(before, Skipped):
        return one
    if isinstance(one, Skipped):
        return before
    order = [Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.NOT_EXERCISED, Verdict.PASS]
    return min(before, one, key=lambda check: order.index(check.verdict))


def _read(document: object) -> _Round:
    if not isinstance(document, dict):
        raise BadRound("it is no object")
    plan = text_in(document, "plan") or OBSERVED
    if plan != OBSERVED and plan not in PLANS:
        known = ", ".join([OBSERVED, *PLANS.all()])
        raise BadRound(f"plan {plan!r} is none of {known}")
    target = text_in(document, "target") or _TARGET
    scene = read_scene(object_in(document, "scene"), target=target)
    codes = [_code(one) for one in objects_in(document, "markers")]
    rows = _rows(document, scene, codes)
    return _Round(
        plan=plan,
        said=text_in(document, "verdict"),
        checks=object_in(document, "checks"),
        observed=Observed(
            evidence=Evidence(
                plan=plan,
                scene=scene,
                rows=rows,
                episodes=episodes_in(document),
                is_same_key=switch_in(document, "same_key") or False,
                workers=names_in(object_in(document, "scene"), "workers"),
            ),
            planters=frozenset(one.tenant for one in codes) | _planters(rows),
            windows=tuple(_window(one) for one in objects_in(document, "windows")),
        ),
    )


def _rows(document: Mapping[str, object], scene: Scene, codes: Sequence[Code]) -> tuple[Row, ...]:
    saved = objects_in(document, "rows")
    if len(saved) > _MOST_ROWS:
        raise BadRound(f"rows are more than {_MOST_ROWS:,}")
    rows: list[Row] = []
    for position, one in enumerate(saved):
        try:
            row = read_row(one, position=position, scene=scene, codes=codes)
            rows += _with_reference(row, switch_in(one, "matches_reference"))
        except BadRound as fault:
            raise BadRound(f"rows[{position}]: {fault}") from None
    return tuple(rows)


def _with_reference(row: Row, matches: bool | None) -> list[Row]:  # noqa: FBT001 - three values
    """Answer a row that its maker compared elsewhere, beside what it was compared with."""
    if matches is None:
        return [row]
    script = row.script or f"row {row.position}"
    said = "as its reference" if matches else "unlike its reference"
    alone = replace(row, part=Part.CONTROL, script=script, said_digest="as its reference", wave=0)
    compared = replace(row, script=script, said_digest=said, opening_digest="")
    return [alone, alone, compared]


def _code(document: Document) -> Code:
    text = whole_text_in(document, "text")
    if not text.strip():
        raise BadRound("markers: text is missing")
    return Code(
        text=text,
        tenant=text_in(document, "tenant") or "another tenant",
        request=text_in(document, "request"),
        page=count_in(document, "page") or 0,
    )


def _planters(rows: Iterable[Row]) -> frozenset[str]:
    return frozenset(one.tenant for row in rows for one in row.sightings)


def _window(document: Document) -> Window:
    answers, right = count_in(document, "answers"), count_in(document, "right")
    if not answers or right is None or right > answers:
        raise BadRound("windows: each holds answers, and how many of them were right")
    return Window(answers=answers, right=right)
