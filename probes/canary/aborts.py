"""What a client's departure came to on both engines: ended half-way, let through, held, computed.

Two questions, because they pull apart. A request that is ended while its KV is on its way endangers
others, so nothing may end it before its first token. A request that goes on after that costs
capacity for nobody. Pure; source and reasons: docs/adr/0014.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from common.verdicts import Verdict, worst
from fleet.reading import Role
from probes.canary.contract import Evidence
from probes.canary.controls import Doubt, inconclusive
from probes.canary.departure import ABORTED, FINISHED, GENERATED, Episode, kept_by
from probes.canary.departure_doubts import (
    SIDES,
    doubt_departure,
    doubt_notice,
    doubt_time,
    episode_of,
    noticed_s,
)
from probes.canary.rounds import Stay
from probes.judgement import Check, Figure, Kind

KEY = "proxy_aborts"
LET_GO = "let_go"

_CURE = (
    "let a request run to its first token once it was sent on (the router, or a proxy that keeps "
    "the connection to it open), and end it then"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """The numbers of the looks that first show each event of the request whose client left."""

    prefill_aborted: int | None
    decode_aborted: int | None
    computed: int | None
    decoded: int | None

    @property
    def is_untouched(self) -> bool:
        """Answer whether no engine was told that the client left."""
        return self.prefill_aborted is None and self.decode_aborted is None


def judge_aborts(evidence: Evidence) -> Check:
    """Fail where a request was ended before its first token because its client left."""
    doubts = [*doubt_departure(evidence)]
    if doubts:
        return _doubtful(evidence, KEY, doubts)
    asked = _only(evidence, Stay.LEAVES)
    course = _course_of(asked)
    failure = _ended_early(asked, course)
    if failure:
        return _check(evidence, KEY, Verdict.FAIL, failure)
    doubts = [*_doubt_order(asked, course)] or [*doubt_notice(evidence)]
    if not doubts and course.computed is not None:
        doubts = [*doubt_time(evidence, alive_s=asked.still_before(course.computed))]
    if doubts:
        return _doubtful(evidence, KEY, doubts)
    then = (
        f"decode then went on to {asked.max_new_tokens:,} tokens"
        if course.is_untouched
        else "decode was told after that"
    )
    reason = (
        f"the client left {asked.seconds:.2f} s after it asked, and its prompt of "
        f"{asked.length:,} tokens ran to its first token all the same; {then}"
    )
    return _check(evidence, KEY, Verdict.PASS, reason)


def judge_let_go(evidence: Evidence) -> Check:
    """Fail, as advice, where an engine held or computed on for a client that had left."""
    doubts = [*doubt_departure(evidence)]
    if doubts:
        return _doubtful(evidence, LET_GO, doubts)
    asked = _only(evidence, Stay.LEAVES)
    held = {side: _held(evidence, asked, side) for side in SIDES}
    failure = "; ".join(filter(None, (_held_on(side, held[side]) for side in SIDES)))
    strangers = [side for side in SIDES if _ended(asked, side) and (held[side] or (0, 0))[0]]
    if strangers:
        others = f"{' and '.join(strangers)} had other requests in hand when ours was over"
        return _doubtful(evidence, LET_GO, [inconclusive(others)])
    if failure:
        reason = f"{asked.last.since_s:.1f} s after the client left {failure}"
        return _check(evidence, LET_GO, Verdict.FAIL, reason)
    course = _course_of(asked)
    doubts = [*_doubt_load(held)] or [*_doubt_going_on(evidence, asked, course)]
    if doubts:
        return _doubtful(evidence, LET_GO, doubts)
    if course.is_untouched:
        return _check(
            evidence,
            LET_GO,
            Verdict.FAIL,
            f"decode went on to {asked.max_new_tokens:,} new tokens for a client that had left: "
            "nothing told it",
        )
    reason = f"{asked.last.until_s:.1f} s after the client left both engines had let go"
    return _check(evidence, LET_GO, Verdict.PASS, reason)


def unjudged(target: str, reason: str) -> tuple[Check, ...]:
    """Answer both checks of a round of which nothing was sent."""
    return tuple(
        Check(
            check=_name(oracle),
            target=target,
            verdict=Verdict.NOT_EXERCISED,
            kind=_kind(oracle),
            reason=reason,
            required=oracle == KEY,
        )
        for oracle in (KEY, LET_GO)
    )


def _course_of(asked: Episode) -> _Course:
    return _Course(
        prefill_aborted=asked.moment(Role.PREFILL, ABORTED),
        decode_aborted=asked.moment(Role.DECODE, ABORTED),
        computed=asked.moment(Role.PREFILL, GENERATED),
        decoded=asked.moment(Role.DECODE, FINISHED),
    )


def _ended_early(asked: Episode, course: _Course) -> str:
    """Answer which side was ended before the first token, in words; empty where none was."""
    told = []
    if _came_through(asked) or _came_late(course):
        return ""
    if course.prefill_aborted is not None:
        told.append("prefill")
    if _came_early(course):
        told.append("decode")
    if not told:
        return ""
    alone = " alone" if len(told) == 1 else ""
    return (
        f"the client left {asked.seconds:.2f} s after it asked, and its prompt of "
        f"{asked.length:,} tokens was ended on {' and '.join(told)}{alone} before its first token: "
        f"pages that are freed under a transfer reach their next owner while it still writes; "
        f"{_CURE}"
    )


def _came_late(course: _Course) -> bool:
    """Answer whether prefill counts an abort after its part was over, so one of somebody else."""
    told, computed = course.prefill_aborted, course.computed
    return told is not None and computed is not None and told > computed


def _came_through(asked: Episode) -> bool:
    """Answer whether decode had the first token, which it counts as its own once it has it."""
    return bool(asked.rise(Role.DECODE, GENERATED, asked.last))


def _came_early(course: _Course) -> bool:
    """Answer whether decode was surely told before the prompt's first token was there."""
    told = course.decode_aborted
    return told is not None and (course.computed is None or told < course.computed)


def _doubt_order(asked: Episode, course: _Course) -> Iterator[Doubt]:
    if course.prefill_aborted is not None:
        # An abort of ours was a failure already.
        yield inconclusive("prefill counts an abort after our request was over: others used it")
    elif course.computed is None:
        yield inconclusive(
            f"the prompt did not come to its first token within {asked.last.since_s:.1f} s of its "
            "client's leaving, and no engine shows that it was ended"
        )
    elif course.decode_aborted is not None and not _came_through(asked):
        yield inconclusive(
            "decode was told of the departure at about the moment of the first token and counts no "
            "token of its own: which came first is not known"
        )


def _doubt_going_on(evidence: Evidence, asked: Episode, course: _Course) -> Iterator[Doubt]:
    """Answer why it does not tell much that decode was never told."""
    if not course.is_untouched:
        return
    if course.computed is None or course.decoded is None:
        yield inconclusive("it is not seen when the request came through and when it ended")
        return
    yield from doubt_notice(evidence)
    begun_s = asked.after[course.computed].until_s
    alive_s = max(0.0, asked.still_before(course.decoded) - begun_s)
    yield from doubt_time(evidence, alive_s=alive_s)


def _doubt_load(held: Mapping[Role, tuple[int, int] | None]) -> Iterator[Doubt]:
    for side, figures in held.items():
        if figures is None:
            yield inconclusive(f"{side} does not show what it has in hand and how much it uses")


def _held(evidence: Evidence, asked: Episode, side: Role) -> tuple[int, int] | None:
    control = episode_of(evidence, Stay.WHOLE)
    kept = 0 if control is None else kept_by(control, side)
    return asked.held(side, asked.last, kept_tokens=kept)


def _ended(asked: Episode, side: Role) -> bool:
    return any(asked.rise(side, name, asked.last) for name in (ABORTED, FINISHED))


def _held_on(side: Role, held: tuple[int, int] | None) -> str:
    requests, tokens = held or (0, 0)
    if not requests and not tokens:
        return ""
    return f"{side} still has {requests} of its requests in hand and holds {tokens:,} tokens"


def _only(evidence: Evidence, stay: Stay) -> Episode:
    return next(one for one in evidence.episodes if one.stay is stay)


def _doubtful(evidence: Evidence, oracle: str, doubts: list[Doubt]) -> Check:
    reasons = dict.fromkeys(doubt.reason for doubt in doubts)
    verdict = worst(doubt.verdict for doubt in doubts)
    return _check(evidence, oracle, verdict, "; ".join(reasons))


def _check(evidence: Evidence, oracle: str, verdict: Verdict, reason: str) -> Check:
    return Check(
        check=_name(oracle),
        target=evidence.scene.target,
        verdict=verdict,
        kind=_kind(oracle),
        reason=reason,
        required=oracle == KEY,
        figures=_figures(evidence),
    )


def _name(oracle: str) -> str:
    return KEY if oracle == KEY else f"{KEY}.{oracle}"


def _kind(oracle: str) -> Kind:
    return Kind.CONFIG if oracle == KEY else Kind.AVAILABILITY


def _figures(evidence: Evidence) -> dict[str, Figure]:
    figures: dict[str, Figure] = {"length": max((row.length for row in evidence.rows), default=0)}
    asked = episode_of(evidence, Stay.LEAVES)
    if asked is None:
        return figures
    course = _course_of(asked)
    figures |= {
        "left_after_s": asked.seconds,
        "first_token_s": None if course.computed is None else asked.after[course.computed].until_s,
        "noticed_s": noticed_s(evidence),
        "watched_s": asked.last.until_s,
    }
    for side in SIDES:
        held = _held(evidence, asked, side)
        figures[f"{side}_aborted"] = asked.rise(side, ABORTED, asked.last)
        figures[f"{side}_held_tokens"] = None if held is None else held[1]
    return figures
