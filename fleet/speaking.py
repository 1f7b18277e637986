"""Picks the way to speak to a router, a node or a pair by what they run."""

from __future__ import annotations

from fleet.contract import Outbound, Speaker
from fleet.live import NodeAddress
from fleet.speakers import NodeSpeaker, PairSpeaker, RouterSpeaker
from fleet.vllm_pair import VllmPairSpeaker

#: Routers whose taking is known; anything else is a gateway that speaks as OpenAI does.
_GATEWAY = "gateway"


def router_speaker(client: Outbound, url: str, *, kind: str, model: str) -> Speaker:
    """Answer what speaks through a router of this kind; an empty kind is sglang-router."""
    return RouterSpeaker(client=client, router_url=url, kind=kind or "sglang-router", model=model)


def gateway_speaker(client: Outbound, url: str, *, model: str) -> Speaker:
    """Answer what speaks through a gateway in front of routers: text only, no salts."""
    return RouterSpeaker(client=client, router_url=url, kind=_GATEWAY, model=model, label=_GATEWAY)


def node_speaker(client: Outbound, node: NodeAddress, *, node_key: str, model: str) -> Speaker:
    """Answer what speaks to one node that does all by itself."""
    return NodeSpeaker(client=client, node=node, node_key=node_key, model=model)


def pair_speaker(
    client: Outbound, prefill: NodeAddress, decode: NodeAddress, *, node_key: str, model: str
) -> Speaker:
    """Answer what speaks to a prefill and a decode node, in their engine's own order."""
    kind = VllmPairSpeaker if decode.engine == "vllm" else PairSpeaker
    return kind(client=client, prefill=prefill, decode=decode, node_key=node_key, model=model)
