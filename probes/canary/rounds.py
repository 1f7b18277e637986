"""What a canary round is ordered with, what it sends, what comes back: frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Way(StrEnum):
    """How a round reaches the engines."""

    ROUTER = "router"
    PAIR = "pair"


class Part(StrEnum):
    """What a request is for: to fill the pool, to show that a silence means something, to ask."""

    FILL = "fill"
    CONTROL = "control"
    ASK = "ask"


class Duty(StrEnum):
    """What the engines owe a request of this length."""

    ANSWER = "answer"
    REFUSAL = "refusal"
    EITHER = "either"


class Outcome(StrEnum):
    """What came back. Only ``ANSWERED`` and ``REFUSED`` say that the engine did its work."""

    ANSWERED = "answered"
    REFUSED = "refused"
    CUT_SHORT = "cut_short"
    FAILED = "failed"
    UNAUTHORISED = "unauthorised"
    NO_ANSWER = "no_answer"
    NOT_EXERCISED = "not_exercised"


class Cause(StrEnum):
    """Which rule a refusal names.

    Source: error texts of SGLang 0.5.5 to 0.5.23, in the router's wrapping too.
    """

    LENGTH = "length"
    CONTEXT = "context"
    TOKEN_COUNT = "token_count"  # noqa: S105 - a rule's name
    OTHER = "other"


class Echo(StrEnum):
    """Whether an answer shows that the request's own prompt was read."""

    WHOLE = "whole"
    BEGINS = "begins"
    MISSING = "missing"
    NOT_LOOKED_FOR = "not_looked_for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One of the two tenants that probe: its number in markers, its name, its key (never shown)."""

    number: int
    name: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A named person's word that a round on an exposed pair is wanted, and why.

    ``fingerprints``, where given, are the only ones that it is good for.
    """

    by: str
    reason: str
    fingerprints: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One request that a plan wants sent. Unit of both figures: tokens."""

    part: Part
    length: int
    max_new_tokens: int
    duty: Duty
    purpose: str

    @property
    def is_by_filler(self) -> bool:
        """Answer whether tenant A sends it, who fills the pool; tenant B sends all else."""
        return self.part is Part.FILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One of our markers in an answer: whose it is, by name, and where it stood (characters)."""

    tenant: str
    request: str
    page: int
    offset: int
    length: int
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request of a round and what its answer showed; the answer itself is not in it.

    ``reason`` says in one sentence why the outcome is what it is, where that needs saying.
    ``answer_digest`` is the SHA-256 of the answer in hex. Units: tokens, seconds on a monotonic
    clock, characters of the answer.
    """

    position: int
    part: Part
    purpose: str
    tenant: str
    request: str
    length: int
    max_new_tokens: int
    duty: Duty
    outcome: Outcome
    reason: str = ""
    status: int | None = None
    cause: Cause | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish: str | None = None
    seconds: float = 0.0
    echo: Echo = Echo.NOT_LOOKED_FOR
    echo_offset: int | None = None
    sightings: tuple[Sighting, ...] = ()
    answer_length: int = 0
    answer_digest: str = ""

    @property
    def is_sent(self) -> bool:
        """Answer whether the request left us."""
        return self.outcome is not Outcome.NOT_EXERCISED

    @property
    def is_served(self) -> bool:
        """Answer whether the engine sent an answer of its model, whole or not."""
        return self.outcome in {Outcome.ANSWERED, Outcome.CUT_SHORT}

    @property
    def is_silent(self) -> bool:
        """Answer whether nothing came back at all, or only a fault of the server."""
        return self.outcome in {Outcome.FAILED, Outcome.NO_ANSWER}

    @property
    def is_read_whole(self) -> bool:
        """Answer whether the engine says that it read exactly the tokens that were sent."""
        return self.prompt_tokens == self.length

    @property
    def foreign(self) -> tuple[Sighting, ...]:
        """Answer the markers in the answer that this request did not bring itself."""
        return tuple(one for one in self.sightings if not one.is_own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a round sends and asks for: tokens (prompt and new ones), requests, seconds."""

    tokens: int = 0
    requests: int = 0
    seconds: float = 0.0


NO_COST = Cost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a round is: requests done of all, and what is under way."""

    done: int
    total: int
    label: str


def cost_of(sendings: Sequence[Sending]) -> Cost:
    """Answer what so many requests would cost at most."""
    tokens = sum(one.length + one.max_new_tokens for one in sendings)
    return Cost(tokens=tokens, requests=len(sendings))


def spent_on(rows: Sequence[Row]) -> Cost:
    """Answer what the rows that were sent did cost.

    Answered tokens count as the engine counted them, as asked for where it did not.
    """
    sent = [row for row in rows if row.is_sent]
    return Cost(
        tokens=sum(row.length + _new_tokens(row) for row in sent),
        requests=len(sent),
        seconds=round(sum(row.seconds for row in sent), 3),
    )


def _new_tokens(row: Row) -> int:
    if row.completion_tokens is not None:
        return row.completion_tokens
    return row.max_new_tokens if row.outcome is not Outcome.REFUSED else 0
