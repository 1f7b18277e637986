"""What the counters of the engines showed while a client left: frozen values and their arithmetic.

Counters: ``num_aborted_requests_total`` counts calls to abort, a client's departure among them;
``generation_tokens_total`` of a prefill node grows by one when a prompt's first token is there.
Source: SGLang 0.5.5 to 0.5.23, observability/metrics_collector.py; recorded on 0.5.19 and 0.5.23.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fleet.reading import Load, Reading, Role
from probes.canary.rounds import Stay
from probes.canary.survey import Survey

ABORTED: Final = "aborted"
FINISHED: Final = "finished"
GENERATED: Final = "generated"
PROMPT_TOKENS: Final = "prompt_tokens"

#: Endings of the engines' names for what is counted.
_ENDINGS: Final = {
    ABORTED: "num_aborted_requests_total",
    FINISHED: "num_requests_total",
    GENERATED: "generation_tokens_total",
    PROMPT_TOKENS: "prompt_tokens_total",
}
#: Requests that wait are shown twice: as a figure of their own, and as a queue of this name.
_WAITING: Final = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """What one node had counted and had in hand at one moment; None where it does not show it.

    ``in_hand`` are the requests that run, wait or stand in a queue. Unit: requests and tokens.
    """

    node: str
    role: Role
    version: str | None = None
    problem: str = ""
    aborted: int | None = None
    finished: int | None = None
    generated: int | None = None
    prompt_tokens: int | None = None
    in_hand: int | None = None
    used_tokens: int | None = None

    def figure(self, name: str) -> int | None:
        """Answer a counter; one that never counted is not shown at all and stands at nothing.

        Whether that is so, and not that the whole page is missing, tells the count of requests,
        which is shown from a node's first request on.
        """
        shown = {
            ABORTED: self.aborted,
            FINISHED: self.finished,
            GENERATED: self.generated,
            PROMPT_TOKENS: self.prompt_tokens,
        }[name]
        return 0 if shown is None and self.finished is not None else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """Every node at one moment, which lies between ``since_s`` and ``until_s``.

    Unit of both: seconds since the client left.
    """

    since_s: float
    until_s: float
    nodes: tuple[NodeCount, ...]

    def of_role(self, role: Role) -> tuple[NodeCount, ...]:
        """Answer the nodes of a role."""
        return tuple(one for one in self.nodes if one.role is role)

    def total(self, role: Role, pick: Callable[[NodeCount], int | None]) -> int | None:
        """Answer the sum of a figure over a role, or None where a node does not show it."""
        figures = [pick(one) for one in self.of_role(role)]
        known = [one for one in figures if one is not None]
        return sum(known) if figures and len(known) == len(figures) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One request with the counters before it and after it.

    Where the client stayed, ``after`` begins with the answer; else with the moment of leaving,
    ``seconds`` after the request was sent. ``is_answered`` with a client that was to leave: the
    answer came first. Lengths in tokens.
    """

    stay: Stay
    target: str
    length: int
    max_new_tokens: int
    is_answered: bool
    seconds: float
    before: Glance
    after: tuple[Glance, ...]

    @property
    def last(self) -> Glance:
        """Answer the last look."""
        return self.after[-1] if self.after else self.before

    def rise(self, role: Role, name: str, glance: Glance) -> int | None:
        """Answer by how much a counter grew until a look, or None where it does not show."""
        # A node that was never asked anything shows no counters yet: they begin at nothing.
        before = self.before.total(role, lambda one: one.figure(name) or 0)
        now = glance.total(role, lambda one: one.figure(name))
        return None if now is None or before is None else now - before

    def moment(self, role: Role, name: str) -> int | None:
        """Answer the number of the first look that shows a counter grown, or None."""
        return next(
            (at for at, one in enumerate(self.after) if (self.rise(role, name, one) or 0) > 0),
            None,
        )

    def still_before(self, moment: int) -> float:
        """Answer up to when it is certain that a moment's event had not happened yet."""
        return self.after[moment - 1].since_s if moment else 0.0

    def held(self, role: Role, glance: Glance, *, kept_tokens: int) -> tuple[int, int] | None:
        """Answer requests and tokens that a role holds more than before; None where not shown.

        ``kept_tokens`` is what a prompt that ended as it should leaves behind, as caches do.
        """
        requests = glance.total(role, lambda one: one.in_hand)
        used = glance.total(role, lambda one: one.used_tokens)
        before = self.before.total(role, lambda one: one.used_tokens)
        if requests is None or used is None or before is None:
            return None
        return requests, max(0, used - before - kept_tokens)


def glance_at(survey: Survey, *, since_s: float = 0.0, until_s: float = 0.0) -> Glance:
    """Answer what a survey says of counters and of what is in hand."""
    return Glance(
        since_s=round(since_s, 3),
        until_s=round(until_s, 3),
        nodes=tuple(_count_of(one) for one in survey.readings),
    )


def kept_by(episode: Episode, role: Role) -> int:
    """Answer how many tokens more a role uses after an episode than before; 0 where not shown."""
    before = episode.before.total(role, lambda one: one.used_tokens)
    after = episode.last.total(role, lambda one: one.used_tokens)
    return 0 if before is None or after is None else max(0, after - before)


def is_over(episode: Episode, *, kept: dict[Role, int]) -> bool:
    """Answer whether both roles show what became of the request, and hold nothing of it."""
    return all(_is_over(episode, role, kept.get(role, 0)) for role in (Role.PREFILL, Role.DECODE))


def _is_over(episode: Episode, role: Role, kept_tokens: int) -> bool:
    last = episode.last
    ends = (episode.rise(role, name, last) or 0 for name in (ABORTED, FINISHED))
    held = episode.held(role, last, kept_tokens=kept_tokens)
    return any(one > 0 for one in ends) and held in {None, (0, 0)}


def _count_of(reading: Reading) -> NodeCount:
    figures = {name: _counter(reading, ending) for name, ending in _ENDINGS.items()}
    return NodeCount(
        node=reading.node,
        role=reading.role,
        version=reading.version,
        problem=reading.problem,
        in_hand=_in_hand(reading.load),
        used_tokens=None if reading.load is None else reading.load.used_tokens,
        **figures,
    )


def _counter(reading: Reading, ending: str) -> int | None:
    found = [value for name, value in reading.counters.items() if name.endswith(f":{ending}")]
    return int(sum(found)) if found else None


def _in_hand(load: Load | None) -> int | None:
    if load is None or not load.queues:
        return None
    queues = [one for name, one in load.queues.items() if name != _WAITING]
    figures = [load.running, load.waiting, *queues]
    known = [one for one in figures if one is not None]
    return sum(known) if len(known) == len(figures) else None
