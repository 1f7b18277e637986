"""Why the counters of a round in which a client left do not surely tell what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fleet.reading import Role
from probes.canary.contract import Evidence
from probes.canary.controls import (
    Doubt,
    asks_of,
    came_to,
    controls_of,
    doubt_unsent,
    inconclusive,
    name_of,
    unexercised,
)
from probes.canary.departure import ABORTED, FINISHED, GENERATED, PROMPT_TOKENS, Episode
from probes.canary.rounds import Duty, Outcome, Row, Stay

SIDES: Final = (Role.PREFILL, Role.DECODE)


def doubt_departure(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why nothing can be told of the request whose client left."""
    control_doubts = [*_doubt_control(evidence)]
    if control_doubts:
        yield from control_doubts
        return
    control, asked = (episode_of(evidence, stay) for stay in (Stay.WHOLE, Stay.LEAVES))
    if control is not None:
        yield from _doubt_counters(control)
        yield from _doubt_others(control, least=1)
    stayed = [*doubt_unsent(asks_of(evidence)), *_doubt_leaving(asks_of(evidence))]
    if stayed or control is None or asked is None:
        yield from stayed or [inconclusive("the counters were not watched")]
        return
    yield from _doubt_counters(asked)
    yield from _doubt_others(asked, least=0)
    if not any(_has_grown(asked, side) for side in SIDES):
        yield unexercised(
            "no engine shows the request at all whose client left: it was dropped before it got "
            "there, or still waits; nothing was in flight to be ended"
        )


def _doubt_control(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why the request whose client stayed tells nothing of how long such a one takes."""
    rows = controls_of(evidence, Duty.ANSWER)
    yield from doubt_unsent(rows)
    for row in rows:
        if row.is_sent and not (row.outcome is Outcome.ANSWERED and row.is_read_whole):
            yield inconclusive(f"{name_of(row)} {came_to(row)}")
    if not rows:
        yield inconclusive("no client stayed, so how long the prompt takes is not known")


def _doubt_leaving(rows: Iterable[Row]) -> Iterator[Doubt]:
    """Answer whose client did not leave half-way."""
    for row in rows:
        if row.outcome is Outcome.ANSWERED:
            yield unexercised(
                f"{name_of(row)} was answered within {row.seconds:.2f} s, before its client left: "
                "a longer one is needed (--budget-tokens)"
            )
        elif row.is_sent and row.outcome is not Outcome.LEFT:
            yield inconclusive(f"{name_of(row)} {came_to(row)}")


def _doubt_counters(episode: Episode) -> Iterator[Doubt]:
    for side in SIDES:
        nodes = episode.last.of_role(side)
        if not nodes:
            yield unexercised(f"there is no {side} node: only a split pair has two engines to tell")
        blind = [one.node for one in nodes if one.finished is None]
        if blind:
            yield inconclusive(
                f"the counters of {', '.join(blind)} cannot be read: make /metrics readable "
                "(--enable-metrics on the engine); they begin with a node's first request"
            )


def _doubt_others(episode: Episode, *, least: int) -> Iterator[Doubt]:
    """Answer where the counters show more or less than this one request of ours."""
    for side in SIDES:
        before = episode.before.total(side, lambda one: one.in_hand)
        finished = episode.rise(side, FINISHED, episode.last) or 0
        aborted = episode.rise(side, ABORTED, episode.last) or 0
        tokens = episode.rise(side, PROMPT_TOKENS, episode.last) or 0
        # One request is either ended or comes to all its tokens.
        are_two = side is Role.DECODE and aborted > 0 and _is_whole(episode)
        if before:
            yield inconclusive(f"{side} had {before} other requests in hand: ask when it is idle")
        elif finished > 1 or aborted > (not least) or tokens > episode.length or are_two:
            yield inconclusive(
                f"{side} counts {finished} requests, {aborted} aborts and {tokens:,} prompt tokens "
                f"where ours was one of {episode.length:,}: others used it meanwhile"
            )
        elif finished < least or (least and tokens < episode.length):
            yield inconclusive(
                f"{side} counts {finished} requests and {tokens:,} prompt tokens after one of "
                f"{episode.length:,} was answered: its counters do not tell"
            )


def _is_whole(episode: Episode) -> bool:
    made = episode.rise(Role.DECODE, GENERATED, episode.last)
    return made is not None and made >= episode.max_new_tokens


def _has_grown(episode: Episode, side: Role) -> bool:
    names = (ABORTED, FINISHED, GENERATED, PROMPT_TOKENS)
    return any(episode.moment(side, name) is not None for name in names)


def doubt_notice(evidence: Evidence) -> Iterator[Doubt]:
    """Answer why no abort in the counters might mean nothing."""
    rows = controls_of(evidence, Duty.EITHER)
    yield from doubt_unsent(rows)
    yield from _doubt_leaving(rows)
    direct = episode_of(evidence, Stay.LEAVES_PAIR)
    if direct is None:
        if not rows:
            yield inconclusive("no client left a pair without the router")
        return
    yield from _doubt_counters(direct)
    yield from _doubt_others(direct, least=0)
    for side in SIDES:
        if direct.moment(side, ABORTED) is None:
            yield _unnoticed(direct, side)
        versions = {one.version for one in direct.last.of_role(side)}
        if len(versions) > 1:
            yield inconclusive(f"the {side} nodes run several versions, and one was tried")


def _unnoticed(direct: Episode, side: Role) -> Doubt:
    if direct.moment(Role.PREFILL, GENERATED) is not None:
        return unexercised(
            f"{side} did not notice a client that left it directly before its prompt of "
            f"{direct.length:,} tokens was through: a longer one is needed (--budget-tokens)"
        )
    return inconclusive(
        f"{side} counts no abort even where a client left it directly, so that it counts none "
        "through the router means nothing"
    )


def doubt_time(evidence: Evidence, *, alive_s: float) -> Iterator[Doubt]:
    """Answer where the request was over before the engines could have noticed anything."""
    notice_s = noticed_s(evidence)
    if notice_s is None or alive_s < notice_s:
        after = "an unknown time" if notice_s is None else f"{notice_s:.2f} s"
        yield unexercised(
            f"the engines notice that a client left after {after}, and the request was seen in "
            f"flight for {alive_s:.2f} s only: a longer prompt is needed (--budget-tokens)"
        )


def noticed_s(evidence: Evidence) -> float | None:
    """Answer how soon both sides surely notice a client that leaves them directly."""
    direct = episode_of(evidence, Stay.LEAVES_PAIR)
    moments = [None if direct is None else direct.moment(side, ABORTED) for side in SIDES]
    known = [one for one in moments if one is not None]
    if direct is None or len(known) < len(SIDES):
        return None
    return direct.after[max(known)].until_s


def episode_of(evidence: Evidence, stay: Stay) -> Episode | None:
    """Answer the request whose client stayed so long, or None where none was watched."""
    return next((one for one in evidence.episodes if one.stay is stay), None)
