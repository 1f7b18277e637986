"""Ways in to a fleet: who speaks to which nodes, and whose tokenizer makes the prompts."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleet.contract import NodeUnreachable, Outbound, Speaker
from fleet.dialects import DIALECTS, Dialect
from fleet.endpoint import is_same_place
from fleet.live import NodeAddress
from fleet.reading import Reading, Role
from fleet.speaking import node_speaker, pair_speaker, router_speaker
from fleet.tokenizing import tokenize
from probes.canary.rounds import Tenant, Way
from probes.canary.survey import Survey

#: What a round by pair client is about where not one pair could be found.
_NO_PAIR = "no pair"
#: Taken where the router does not tell what it is; a round by it is then refused in any case.
_USUAL_ROUTER = "sglang-router"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayIn:
    """One speaker, the addresses of the nodes that it reaches by itself, and its name in checks.

    ``dialect`` tells what is taken by this way.
    """

    target: str
    speaker: Speaker
    reached: tuple[str, ...] = ()
    dialect: Dialect = DIALECTS["sglang-router"]


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
    """Answer one way through the router, or one for each pair and each unified node.

    Those are of the named nodes, or where none is named of those that the router lists. Where there
    is none, the one way in reaches nothing, and safety rule 1 says so.
    """
    routed = _router_way(gateway, survey)
    if way is Way.ROUTER:
        return (routed,)
    nodes = _addresses(survey, named)
    direct = [
        _pair_way(gateway, prefill, decode)
        for prefill in nodes
        if prefill.role is Role.PREFILL
        for decode in nodes
        if decode.role is Role.DECODE
    ]
    direct += [_node_way(gateway, node) for node in nodes if node.role is Role.UNIFIED]
    return tuple(direct) or (replace(routed, target=_NO_PAIR),)


def pair_of(gateway: Gateway, *, survey: Survey, named: Sequence[NodeAddress]) -> Speaker | None:
    """Answer what speaks to the first pair without the router, or None where there is no pair."""
    first = ways_into(gateway, way=Way.PAIR, survey=survey, named=named)[0]
    return first.speaker if first.reached else None


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


def _router_way(gateway: Gateway, survey: Survey) -> WayIn:
    kind = survey.router_kind or _USUAL_ROUTER
    speaker = router_speaker(gateway.client, gateway.router_url, kind=kind, model=gateway.model)
    dialect = DIALECTS.get(kind, DIALECTS["gateway"])
    return WayIn(target=speaker.label, speaker=speaker, dialect=dialect)


def _pair_way(gateway: Gateway, prefill: NodeAddress, decode: NodeAddress) -> WayIn:
    speaker = pair_speaker(
        gateway.client, prefill, decode, node_key=gateway.node_key, model=gateway.model
    )
    return WayIn(
        target=speaker.label,
        speaker=speaker,
        reached=(prefill.url, decode.url),
        dialect=DIALECTS.get(decode.engine, DIALECTS["gateway"]),
    )


def _node_way(gateway: Gateway, node: NodeAddress) -> WayIn:
    speaker = node_speaker(gateway.client, node, node_key=gateway.node_key, model=gateway.model)
    dialect = DIALECTS.get(node.engine, DIALECTS["gateway"])
    return WayIn(target=speaker.label, speaker=speaker, reached=(node.url,), dialect=dialect)


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
