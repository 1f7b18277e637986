"""What a canary round is ordered with, what it sends, what comes back: frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fleet.speech import PLAIN, Form


class Way(StrEnum):
    """How a round reaches the engines."""

    ROUTER = "router"
    PAIR = "pair"


class Part(StrEnum):
    """What a request is for: to fill the pool, to show that a silence means something, to ask."""

    FILL = "fill"
    CONTROL = "control"
    ASK = "ask"


class Sender(StrEnum):
    """Which of the two tenants of a round sends a request: A, who fills, or B, who asks."""

    FILLER = "filler"
    ASKER = "asker"


class Duty(StrEnum):
    """What the engines owe a request of this length."""

    ANSWER = "answer"
    REFUSAL = "refusal"
    EITHER = "either"


class Stay(StrEnum):
    """How long the client of a request stays: until the answer, or until it leaves half-way.

    ``LEAVES_PAIR`` is a client that speaks to a pair without the router and leaves.
    """

    WHOLE = "whole"
    LEAVES = "leaves"
    LEAVES_PAIR = "leaves_pair"


class Outcome(StrEnum):
    """What came back. Only ``ANSWERED`` and ``REFUSED`` say that the engine did its work."""

    ANSWERED = "answered"
    REFUSED = "refused"
    CUT_SHORT = "cut_short"
    FAILED = "failed"
    UNAUTHORISED = "unauthorised"
    NO_ANSWER = "no_answer"
    LEFT = "left"
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
    """One request that a plan wants sent. Unit of both figures: tokens.

    Sendings of one ``script`` are the very same prompt, code and all, whoever sends them; an empty
    one is like no other. Those of one ``wave`` above 0 are under way together. ``sender`` is who
    sends it where ``part`` does not tell; ``salt`` is the name of a cache salt that is made anew
    for each round. ``is_bystander``: it was sent to see what others did to it. Those of one
    ``stem`` begin with the very same ``stem_tokens`` tokens and differ in the next; where a route
    takes text alone, they differ in their code and nowhere else. A client that leaves in a wave
    does so after ``leave_share`` of the time that the same prompt (else one of its length) took
    when it was answered. It asks for so many ``codes``, spread over its pages, one at its
    end; 0: for one near its beginning alone.
    """

    part: Part
    length: int
    max_new_tokens: int
    duty: Duty
    purpose: str
    stay: Stay = Stay.WHOLE
    sender: Sender | None = None
    script: str = ""
    wave: int = 0
    salt: str = ""
    form: Form = PLAIN
    is_bystander: bool = False
    stem: str = ""
    stem_tokens: int = 0
    leave_share: float = 0.25
    codes: int = 1

    @property
    def is_by_filler(self) -> bool:
        """Answer whether tenant A sends it, who fills the pool; tenant B sends all else."""
        if self.sender is not None:
            return self.sender is Sender.FILLER
        return self.part is Part.FILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One of our markers in an answer: whose it is, by name, and where it stood (characters).

    ``view`` is how the answer had to be looked at to see it (plain, reversed, base64), and
    ``net_bits`` how much evidence it is beyond chance; a suspect is less than an alarm takes.
    """

    tenant: str
    request: str
    page: int
    offset: int
    length: int
    is_own: bool
    view: str = "plain"
    net_bits: float | None = None
    is_suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request of a round and what its answer showed; the answer itself is not in it.

    ``reason`` says in one sentence why the outcome is what it is, where that needs saying.
    ``answer_digest`` is the SHA-256 of all text that came, ``said_digest`` that of what the model
    itself said, and ``opening_digest`` that of its first token, or first word where no token is
    shown; in hex, empty where there was none. ``cache_marks`` are headers with which a cache in
    front tells of itself. ``worker`` names the node or pair that is known to have answered.
    ``asked_pages`` are those whose codes the prompt asks for, where it asks for several;
    ``missing_pages`` those of them whose code did not come back.
    Units: tokens, seconds on a monotonic clock, characters of the answer.
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
    said_digest: str = ""
    opening_digest: str = ""
    script: str = ""
    wave: int = 0
    salt: str = ""
    api: str = "generate"
    is_streamed: bool = False
    temperature: float = 0.0
    is_bystander: bool = False
    first_token_s: float | None = None
    cached_tokens: int | None = None
    answer_id: str = ""
    cache_marks: Mapping[str, str] = field(default_factory=dict)
    worker: str = ""
    asked_pages: tuple[int, ...] = ()
    missing_pages: tuple[int, ...] = ()

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
        return tuple(one for one in self.sightings if not (one.is_own or one.is_suspect))

    @property
    def suspects(self) -> tuple[Sighting, ...]:
        """Answer what may be pieces of markers that this request did not bring itself."""
        return tuple(one for one in self.sightings if one.is_suspect and not one.is_own)


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
