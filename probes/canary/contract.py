"""What a canary plan must be, and what a round needs from outside."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from common.registry import Registry
from fleet.contract import Speaker
from fleet.dialects import DIALECTS, Dialect
from probes.canary.departure import Episode
from probes.canary.rounds import Acceptance, Progress, Row, Sending, Tenant, Way
from probes.canary.scene import Scene
from probes.canary.survey import Survey
from probes.judgement import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that an oracle may look at: the plan's key, the scene and the rows of one round.

    ``episodes`` are there where a plan lets clients leave: the same requests with the counters of
    the engines around them. ``workers`` are all that could have answered, by name, where somebody
    says which those are. ``is_same_key``: both tenants have one key, and are one to all on the way.
    """

    plan: str
    scene: Scene
    rows: tuple[Row, ...]
    episodes: tuple[Episode, ...] = ()
    workers: tuple[str, ...] = ()
    is_same_key: bool = False


class CanaryPlan(Protocol):
    """Chooses what is sent and judges what came back. Pure: it neither asks nor stores.

    ``oracles`` names its checks without the plan's name. Lengths come from the scene, never from
    arithmetic on a setting. ``judge`` answers one check for each oracle, whatever the rows are.
    ``ways`` are those by which it shows anything. ``guards`` names the gates that nodes in rotation
    must pass before it is sent, beside ``pair_exposure``.
    """

    title: str
    oracles: Sequence[str]
    ways: Collection[Way]
    guards: Sequence[str]

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer what to send, in this order."""
        ...

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer what the rows show."""
        ...

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the same checks for a round of which nothing was sent."""
        ...


class Tokenizer(Protocol):
    """Turns text into the ids of the probed model. Raises FleetError where the node does not."""

    async def __call__(self, text: str) -> Sequence[int]:
        """Answer the token ids, special tokens included where the model adds them."""
        ...


class Surveyor(Protocol):
    """Reads every node that was named or that the router lists, and the list itself."""

    async def survey(self) -> Survey:
        """Answer what is there now. Never raises: what could not be read is in the answer."""
        ...


class Observer(Protocol):
    """Follows a round while it runs; all three are asked between requests."""

    async def is_stopped(self) -> bool:
        """Answer whether somebody pulled the kill switch."""
        ...

    async def progressed(self, progress: Progress) -> None:
        """Hear how far the round is."""
        ...

    async def answered(self, row: Row, text: str) -> None:
        """Hear a finished row and its answer, which may be leaked data: seal it or drop it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOrder:
    """One round: which plan, by which way, as whom, and what was granted for it.

    ``reached`` are the addresses of the nodes that a pair client speaks to; a router reaches what
    it lists. ``direct`` speaks to one pair without the router, None where there is no pair.
    ``dialect`` tells what the speaker's way takes: routes, token ids, salts.
    ``secret`` is the key of the markers and stays the same over rounds, so that a marker of an
    earlier round is still known; ``seed`` makes the nonces of this one. ``grant_tokens`` is None
    where nobody granted any. Unit: tokens.
    """

    plan: str
    way: Way
    target: str
    speaker: Speaker
    tokenize: Tokenizer
    surveyor: Surveyor
    tenant_a: Tenant
    tenant_b: Tenant
    secret: bytes = field(repr=False)
    seed: int
    reached: tuple[str, ...] = ()
    grant_tokens: int | None = None
    acceptance: Acceptance | None = None
    direct: Speaker | None = None
    dialect: Dialect = DIALECTS["sglang-router"]

    @property
    def is_same_key(self) -> bool:
        """Answer whether both tenants have one key, so that no border between them is tested."""
        return self.tenant_a.key == self.tenant_b.key


class Silent:
    """An observer that stops nothing, shows nothing and drops every answer."""

    async def is_stopped(self) -> bool:
        """Answer no."""
        return False

    async def progressed(self, progress: Progress) -> None:
        """Show nothing."""

    async def answered(self, row: Row, text: str) -> None:
        """Drop the answer."""


PLANS: Registry[CanaryPlan] = Registry("canary plan")
