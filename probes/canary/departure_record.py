"""Rounds in which a client left, as published, and read back so that they are judged anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Final, TypeVar

from common.verdicts import Verdict
from fleet.reading import Role
from probes.canary.aborts import KEY, judge_aborts, judge_let_go, unjudged
from probes.canary.contract import Evidence
from probes.canary.departure import Episode, Glance, NodeCount
from probes.canary.rounds import Duty, Outcome, Part, Row, Stay
from probes.canary.saved_fields import BadRound
from probes.canary.scene import Scene
from probes.judgement import Check

_COUNTS: Final = (
    "aborted",
    "finished",
    "generated",
    "prompt_tokens",
    "in_hand",
    "used_tokens",
)
_LARGEST: Final = 10**12
Document = Mapping[str, object]
Word = TypeVar("Word", bound=StrEnum)


class _BadRound(Exception):
    """A saved round has not the published shape; the text names the field."""


def departures_document(episodes: Iterable[Episode]) -> list[dict[str, object]]:
    """Answer the published JSON of what was watched while clients left."""
    return [asdict(one) for one in episodes]


def judge_saved(rounds: Iterable[object]) -> Iterator[Check]:
    """Answer the checks of the saved rounds of this plan; what cannot be read is inconclusive.

    What moved while a round ran is in its own verdict alone, so a pass needs that one too.
    """
    for document in rounds:
        if isinstance(document, dict) and document.get("plan") == KEY:
            yield from _judge(document)


def episodes_in(document: Document) -> tuple[Episode, ...]:
    """Answer what was watched in a saved round, nothing where it says nothing. Raises BadRound."""
    if document.get("departures") is None:
        return ()
    try:
        return tuple(_episode(one) for one in _objects(document, "departures"))
    except _BadRound as fault:
        raise BadRound(f"departures: {fault}") from None


def _judge(document: Document) -> Iterator[Check]:
    try:
        evidence = _evidence(document)
    except _BadRound as fault:
        for check in unjudged("saved round", f"the saved round cannot be read: {fault}"):
            yield replace(check, verdict=Verdict.INCONCLUSIVE)
        return
    said = document.get("verdict")
    for check in (judge_aborts(evidence), judge_let_go(evidence)):
        if check.verdict is Verdict.PASS and check.required and said != Verdict.PASS:
            reason = "the round itself did not come to a pass when it was made"
            yield replace(check, verdict=Verdict.INCONCLUSIVE, reason=f"{reason}; {check.reason}")
        else:
            yield check


def _evidence(document: Document) -> Evidence:
    # Lengths were chosen when the round was sent: a round that is read back needs no pairs.
    target = _text(document, "target")
    scene = Scene(target=target, pairs=(), page_size=1, pool=0, fill=0)
    return Evidence(
        plan=KEY,
        scene=scene,
        rows=tuple(_row(one) for one in _objects(document, "rows")),
        episodes=tuple(_episode(one) for one in _objects(document, "departures")),
    )


def _row(document: Document) -> Row:
    return Row(
        position=_count(document, "position"),
        part=_word(document, "part", Part),
        purpose=_text(document, "purpose"),
        tenant=_text(document, "tenant"),
        request=_text(document, "request"),
        length=_count(document, "length"),
        max_new_tokens=_count(document, "max_new_tokens"),
        duty=_word(document, "duty", Duty),
        outcome=_word(document, "outcome", Outcome),
        reason=_text(document, "reason"),
        status=_count_or_none(document, "status"),
        prompt_tokens=_count_or_none(document, "prompt_tokens"),
        seconds=_seconds(document, "seconds"),
    )


def _episode(document: Document) -> Episode:
    is_answered = document.get("is_answered")
    if not isinstance(is_answered, bool):
        raise _BadRound("is_answered is neither true nor false")
    return Episode(
        stay=_word(document, "stay", Stay),
        target=_text(document, "target"),
        length=_count(document, "length"),
        max_new_tokens=_count(document, "max_new_tokens"),
        is_answered=is_answered,
        seconds=_seconds(document, "seconds"),
        before=_glance(_object(document.get("before"), "before")),
        after=tuple(_glance(one) for one in _objects(document, "after")),
    )


def _glance(document: Document) -> Glance:
    return Glance(
        since_s=_seconds(document, "since_s"),
        until_s=_seconds(document, "until_s"),
        nodes=tuple(_node(one) for one in _objects(document, "nodes")),
    )


def _node(document: Document) -> NodeCount:
    version = document.get("version")
    return NodeCount(
        node=_text(document, "node"),
        role=_word(document, "role", Role),
        version=version if isinstance(version, str) else None,
        problem=_text(document, "problem"),
        **{name: _count_or_none(document, name) for name in _COUNTS},
    )


def _object(value: object, place: str) -> Document:
    if not isinstance(value, dict):
        raise _BadRound(f"{place} is no object")
    return value


def _objects(document: Document, name: str) -> list[Document]:
    value = document.get(name)
    if not isinstance(value, list | tuple):
        raise _BadRound(f"{name} is no list")
    return [_object(one, name) for one in value]


def _text(document: Document, name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise _BadRound(f"{name} is no text")
    return value


def _word(document: Document, name: str, words: type[Word]) -> Word:
    try:
        return words(_text(document, name))
    except ValueError:
        raise _BadRound(f"{name} is none of {', '.join(words)}") from None


def _count(document: Document, name: str) -> int:
    value = _count_or_none(document, name)
    if value is None:
        raise _BadRound(f"{name} is missing")
    return value


def _count_or_none(document: Document, name: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise _BadRound(f"{name} is no count")
    return value


def _seconds(document: Document, name: str) -> float:
    value = document.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return float(value)
    raise _BadRound(f"{name} is no number of seconds")
