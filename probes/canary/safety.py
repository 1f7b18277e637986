"""Safety rule 1: whether a round may be sent at all. Pure decisions over what was read before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from common.verdicts import Verdict
from fleet.reading import Reading
from probes.canary.rounds import Acceptance, Way
from probes.canary.survey import Survey
from probes.doubts import doubt_about
from probes.judgement import Check
from probes.limits import refusal_limits

_WAYS_OUT = (
    "cordon the pair and probe it directly (--via pair), or let a named person accept it for one "
    "round (--accept-exposure REASON --as NAME)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """One reason not to send a round; a named person may accept some of them, never the others."""

    reason: str
    is_acceptable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearance:
    """Whether a round may be sent, and what was held against it.

    ``is_cordoned``: the pair is proved out of rotation. ``is_accepted``: only objections were left
    that a named person accepts.
    """

    objections: tuple[Objection, ...]
    is_cordoned: bool
    is_accepted: bool

    @property
    def is_granted(self) -> bool:
        """Answer whether the round may be sent."""
        return not self.objections or self.is_accepted

    @property
    def refusal(self) -> str:
        """Answer why it may not, and what to do; empty where it may."""
        if self.is_granted:
            return ""
        reasons = "; ".join(one.reason for one in self.objections)
        can_be_accepted = all(one.is_acceptable for one in self.objections)
        return f"{reasons}: {_WAYS_OUT}" if can_be_accepted else reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What safety rule 1 is asked about: a way in, the nodes it reaches, and what was read.

    ``reached`` are the readings of the nodes that the requests can touch. ``exposure`` are the
    checks of the gate ``pair_exposure`` over every pair in rotation, the reached one included;
    ``guards`` those of the gates that the plan wants passed as well.
    """

    way: Way
    survey: Survey
    reached: tuple[Reading, ...]
    exposure: tuple[Check, ...]
    guards: tuple[Check, ...] = ()


def clear(question: Question, acceptance: Acceptance | None) -> Clearance:
    """Answer whether the round may be sent."""
    is_cordoned = question.way is Way.PAIR and is_out_of_rotation(question.survey, question.reached)
    objections = [*_object_to_nodes(question.reached)]
    if not is_cordoned:
        objections += [*_object_to_list(question), *_object_to_rotation(question)]
    objections += _object_to_acceptance(question, acceptance)
    is_accepted = bool(objections) and acceptance is not None
    return Clearance(
        objections=tuple(objections),
        is_cordoned=is_cordoned,
        is_accepted=is_accepted and all(one.is_acceptable for one in objections),
    )


def is_out_of_rotation(survey: Survey, reached: Iterable[Reading]) -> bool:
    """Answer whether these nodes are proved to be in no list of the router that was read."""
    if survey.listed is None:
        return False
    return not any(
        survey.may_list(one.url) or survey.is_same_process_listed(one) for one in reached
    )


def in_rotation(survey: Survey, reached: Iterable[Reading]) -> tuple[Reading, ...]:
    """Answer the readings that exposure and limits are judged over: listed ones and the reached."""
    by_node = {one.node: one for one in (*survey.listed_readings, *reached)}
    return tuple(by_node.values())


def _object_to_list(question: Question) -> Iterator[Objection]:
    survey = question.survey
    if survey.listed is None:
        yield Objection(
            reason=(
                "the router's list of workers cannot be read, so nobody knows whose requests a "
                f"probe would meet: {survey.listing_problem or 'no list'}"
            )
        )
        return
    for worker in survey.listed:
        if worker.role is None:
            yield Objection(reason=f"the router lists {worker.url} without saying its role")
        elif survey.reading_at(worker.url) is None:
            yield Objection(reason=f"the router lists {worker.url}, which was not read")
    if question.way is Way.ROUTER:
        for url in survey.named:
            if not survey.lists(url):
                yield Objection(
                    reason=(
                        f"{url} was named, but the router does not list it under this address, so "
                        "a round through the router cannot be said to reach it: probe it with "
                        "--via pair, or name it as the router does"
                    )
                )


def _object_to_nodes(reached: tuple[Reading, ...]) -> Iterator[Objection]:
    if not reached:
        yield Objection(reason="no node that this round could reach was read")
    for doubt in filter(None, map(doubt_about, reached)):
        yield Objection(reason=doubt)


def _object_to_rotation(question: Question) -> Iterator[Objection]:
    readings = in_rotation(question.survey, question.reached)
    for doubt in filter(None, map(doubt_about, readings)):
        yield Objection(reason=doubt)
    for check in question.exposure:
        if check.verdict is not Verdict.PASS:
            yield Objection(
                reason=f"pair {check.target} is in rotation and not safe to probe: {check.reason}",
                is_acceptable=True,
            )
    for check in question.guards:
        if check.verdict is not Verdict.PASS:
            yield Objection(
                reason=f"{check.target} is in rotation and {check.check} does not pass there: "
                f"{check.reason}",
                is_acceptable=True,
            )
    for one in readings:
        if one.is_read and not one.version:
            yield Objection(reason=f"{one.node} does not say its version", is_acceptable=True)
    yield from _object_to_limits(readings)


def _object_to_limits(readings: tuple[Reading, ...]) -> Iterator[Objection]:
    limits = {one.node: refusal_limits(one) for one in readings if one.is_read}
    figures = {limit for one in limits.values() for limit in (one.lowest, one.highest)}
    if len(figures - {None}) > 1:
        shown = [f"{node} {one.lowest:,}" for node, one in limits.items() if one.lowest]
        yield Objection(
            reason=(
                f"the limits are unequal (first refused: {', '.join(shown)}), and a prompt that "
                "only one side refuses can hold up the other"
            ),
            is_acceptable=True,
        )


def _object_to_acceptance(question: Question, acceptance: Acceptance | None) -> Iterator[Objection]:
    if acceptance is None:
        return
    if not (acceptance.by.strip() and acceptance.reason.strip()):
        yield Objection(reason="an acceptance needs the name of a person and a reason")
    present = {one.fingerprint for one in in_rotation(question.survey, question.reached)}
    if acceptance.fingerprints and not present <= acceptance.fingerprints:
        yield Objection(
            reason=f"the nodes are not those that {acceptance.by} accepted: ask for acceptance anew"
        )
