"""What an engine adapter and a router adapter must be, and the errors the fleet floor raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from common.registry import Registry
from fleet.reading import Attestation, Reading, Role, Worker
from fleet.speech import PLAIN, Api, Completion, Form

__all__ = [
    "ENGINES",
    "PLAIN",
    "ROUTERS",
    "AddressRefused",
    "Answer",
    "Api",
    "BadAnswer",
    "Completion",
    "EngineAdapter",
    "FleetError",
    "Form",
    "Listener",
    "NodeCapture",
    "NodeUnreachable",
    "Outbound",
    "Outcome",
    "Reply",
    "RouterAccess",
    "RouterAdapter",
    "RouterError",
    "RouterTraits",
    "Speaker",
]


class Outcome(StrEnum):
    """What asking a node came to, in one word; everything but ``read`` opens no door."""

    READ = "read"
    DNS = "dns"
    TLS = "tls"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    NO_ROUTE = "no_route"
    RESET = "reset"
    POLICY = "policy"
    KEY = "key"
    BAD_ANSWER = "bad_answer"


class FleetError(Exception):
    """Base of what this floor raises; its text names the node and says what to do.

    ``outcome`` is the same in one word, so that a sweep can count it.
    """

    outcome: Outcome = Outcome.BAD_ANSWER

    def __init__(self, text: str, *, outcome: Outcome | None = None) -> None:
        super().__init__(text)
        if outcome is not None:
            self.outcome = outcome


class AddressRefused(FleetError):
    """The address policy does not let us connect there."""

    outcome = Outcome.POLICY


class NodeUnreachable(FleetError):
    """Refused, reset, DNS, TLS or time-out: the node did not answer."""

    outcome = Outcome.NO_ROUTE


class BadAnswer(FleetError):
    """The node answered with a status, size or body that cannot be used."""


class RouterError(FleetError):
    """The router could not be read, or did not do what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One saved answer. ``status`` 0 with ``error`` is a node that did not answer.

    A response that was not asked is absent from its mapping. ``json`` and ``text`` hold only what
    the engine's allow-list lets through; raw bodies are never kept.
    """

    status: int = 0
    json: object = None
    text: str | None = None
    error: str = ""
    outcome: Outcome | None = None
    is_redacted: bool = False
    exposed_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapture:
    """Allow-listed answers of one node: what ``capture`` saves and ``judge`` reads again.

    ``responses`` is keyed by "METHOD /route". ``attested`` holds what people vouch for, by name.
    """

    name: str
    engine: str
    role: Role
    responses: Mapping[str, Answer]
    url: str = ""
    attested: Mapping[str, Attestation] = field(default_factory=dict)
    logs: tuple[str, ...] = ()
    taken_at: datetime | None = None


class EngineAdapter(Protocol):
    """Turns an engine's answers into a reading. Pure: it neither asks nor stores.

    ``routes`` are asked in order; a tuple of alternatives is asked until one is not 404.
    ``allow`` keeps only what the allow-list names. ``read`` never raises on any body.
    """

    title: str
    routes: Sequence[tuple[str, ...]]

    def allow(self, route: str, answer: Answer) -> Answer:
        """Answer the same answer, reduced to the allow-list."""
        ...

    def read(self, capture: NodeCapture) -> Reading:
        """Answer the reading that these answers amount to."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterTraits:
    """What tells kinds of router apart.

    ``entry_fields`` are the fields that every entry of GET /workers has. Where nothing is listed,
    GET /list_workers answers addresses (``lists_urls``) or 404 with a code.
    """

    has_workers: bool = False
    entry_fields: frozenset[str] = frozenset()
    lists_urls: bool = False
    unknown_path_code: str = ""


class RouterAdapter(Protocol):
    """Lists, removes and adds workers of one kind of router, through the outbound client.

    Every asynchronous call raises RouterError where the router cannot be read or refuses.
    ``usual_engine`` is what such a router mostly stands before.
    """

    title: str
    usual_engine: str

    def recognises(self, traits: RouterTraits) -> bool:
        """Answer whether a router with these traits is of this kind."""
        ...

    def restore_note(self, worker: Worker) -> str:
        """Answer what adding a worker back takes beyond an order; empty where nothing."""
        ...

    async def list_workers(self, router: RouterAccess) -> tuple[Worker, ...]:
        """Answer every worker that the router lists."""
        ...

    async def remove_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Ask the router to drop a worker; returns when it is gone from the list."""
        ...

    async def add_worker(self, router: RouterAccess, worker: Worker) -> None:
        """Ask the router to take a worker; returns when it is listed, healthy and of its role."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back for one request, whole. Header names are in lower case.

    Unit of ``seconds``: monotonic clock, from before the connection to the last byte.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    seconds: float = 0.0


class Listener(Protocol):
    """Hears an answer while it comes: its head once, then its body as the parts arrive.

    Header names are in lower case. Unit of ``seconds``: as ``Reply.seconds``, up to this part.
    """

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Hear the head."""
        ...

    def hear(self, part: bytes, seconds: float) -> bool:
        """Hear a part of the body, and answer whether that is enough."""
        ...


class Outbound(Protocol):
    """The one way out of the process; ``fleet.client.OutboundClient`` is it."""

    async def request(
        self, method: str, url: str, *, json: object = None, key: str = "", timeout_s: float = 10.0
    ) -> Reply:
        """Answer the reply. Raises AddressRefused, NodeUnreachable, BadAnswer."""
        ...

    async def post(  # noqa: PLR0913 - keyword-only from the second on
        self,
        url: str,
        *,
        body: bytes,
        listener: Listener,
        key: str = "",
        request_id: str = "",
        timeout_s: float = 10.0,
    ) -> None:
        """Send a prompt once. Raises AddressRefused, NodeUnreachable, BadAnswer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterAccess:
    """Where a router is, the way out to it, and the keys it wants (never shown).

    ``key`` opens its control plane; ``worker_key`` is what it shall show to a worker that is added
    (a router never shows that key, so it cannot be read back from its list).
    """

    url: str
    client: Outbound = field(repr=False)
    key: str = field(default="", repr=False)
    worker_key: str = field(default="", repr=False)
    deadline_s: float = 60.0


class Speaker(Protocol):
    """Sends prompts of exact length as one tenant and answers what came back; never raises.

    ``label`` names the way in pages and rows ("router", "pair prefill-1/decode-1"). ``token_ids``
    are sent where the API takes them, else ``text``, never both. A form that this way cannot send
    is answered by a completion of status 0 with the reason.
    """

    @property
    def label(self) -> str:
        """Answer the name of this way in."""
        ...

    async def ask(  # noqa: PLR0913 - keyword-only
        self,
        *,
        token_ids: Sequence[int],
        max_new_tokens: int,
        tenant_key: str,
        timeout_s: float,
        form: Form = PLAIN,
        text: str = "",
    ) -> Completion:
        """Send one prompt, temperature 0, and wait for the whole answer."""
        ...


ENGINES: Registry[EngineAdapter] = Registry("engine")
ROUTERS: Registry[RouterAdapter] = Registry("router")
