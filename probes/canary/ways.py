"""Ways in to a fleet: who speaks to which nodes, and whose tokenizer makes the prompts."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleet.contract import NodeUnreachable, Outbound, Speaker
from fleet.endpoint import is_same_place
from fleet.live import NodeAddress
from fleet.reading import Reading, Role
from fleet.speakers import PairSpeaker, RouterSpeaker, tokenize
from probes.canary.rounds import Tenant, Way
from probes.canary.survey import Survey

#: What a round by pair client is about where not one pair could be found.
_NO_PAIR = "no pair"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayIn:
    """One speaker, the addresses of the nodes that it reaches by itself, and its name in checks."""

    target: str
    speaker: Speaker
    reached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTokenizer:
    """Asks the first of several nodes that answers; all serve one model."""

    client: Outbound = field(repr=False)
    nodes: tuple[NodeAddress, ...]
    key: str = field(default="", repr=False)

    async def __call__(self, text: str) -> Sequence[int]:
        """Answer the token ids of a text. Raises FleetError."""
        if not self.nodes:
            raise NodeUnreachable("no node was read that could turn text into tokens")
        return await tokenize(self.client, self.nodes[0], text, key=self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Where a deployment's router is, what it serves, and the key that its nodes want."""

    client: Outbound = field(repr=False)
    router_url: str
    model: str
    node_key: str = field(default="", repr=False)


def ways_into(
    gateway: Gateway, *, way: Way, survey: Survey, named: Sequence[NodeAddress]
) -> tuple[WayIn, ...]:
    """Answer one way through the router, or one for each pair.

    Pairs are those of the named nodes, or where none is named those that the router lists. Where
    there is none, the one way in reaches nothing, and safety rule 1 says so.
    """
    if way is Way.ROUTER:
        speaker = RouterSpeaker(
            client=gateway.client, router_url=gateway.router_url, model=gateway.model
        )
        return (WayIn(target=speaker.label, speaker=speaker),)
    nodes = _addresses(survey, named)
    pairs = tuple(
        _pair_way(gateway, prefill, decode)
        for prefill in nodes
        if prefill.role is Role.PREFILL
        for decode in nodes
        if decode.role is Role.DECODE
    )
    silent = RouterSpeaker(client=gateway.client, router_url=gateway.router_url)
    return pairs or (WayIn(target=_NO_PAIR, speaker=silent),)


def tokenizer_of(gateway: Gateway, survey: Survey, named: Sequence[NodeAddress]) -> NodeTokenizer:
    """Answer the tokenizer of the first node that could be read."""
    readable = {one.node for one in survey.readings if one.is_read}
    nodes = [_address(survey, one, named) for one in survey.readings if one.node in readable]
    return NodeTokenizer(client=gateway.client, nodes=tuple(nodes), key=gateway.node_key)


def marker_secret(tenant_a: Tenant, tenant_b: Tenant) -> bytes:
    """Answer the key of these tenants' markers; it is the same in every round that they probe.

    So a marker that an earlier round left in a page is known as well. The keys cannot be found
    from it.
    """
    first = hmac.digest(b"pagewarden markers", tenant_a.key.encode(), hashlib.sha256)
    return hmac.digest(first, tenant_b.key.encode(), hashlib.sha256)


def _pair_way(gateway: Gateway, prefill: NodeAddress, decode: NodeAddress) -> WayIn:
    speaker = PairSpeaker(
        client=gateway.client, prefill=prefill, decode=decode, node_key=gateway.node_key
    )
    return WayIn(target=speaker.label, speaker=speaker, reached=(prefill.url, decode.url))


def _addresses(survey: Survey, named: Sequence[NodeAddress]) -> tuple[NodeAddress, ...]:
    wanted = {one.name for one in named}
    return tuple(
        _address(survey, one, named) for one in survey.readings if not wanted or one.node in wanted
    )


def _address(survey: Survey, reading: Reading, named: Sequence[NodeAddress]) -> NodeAddress:
    """Answer where a read node is, with the bootstrap port from whoever tells it."""
    known = next((one for one in named if one.name == reading.node), None)
    address = known or NodeAddress(
        name=reading.node, url=reading.url, role=reading.role, engine=reading.engine
    )
    if address.bootstrap_port is not None:
        return address
    listed = [one for one in survey.listed or () if is_same_place(one.url, address.url)]
    ports = [one.bootstrap_port for one in listed if one.bootstrap_port is not None]
    return replace(address, bootstrap_port=next(iter(ports), reading.bootstrap_port))
